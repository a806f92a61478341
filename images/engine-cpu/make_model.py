"""Make the tiny model: a Llama with random weights, and a tokenizer trained on made text."""

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 1024
BEGIN, END, USER, ASSISTANT, SYSTEM = "<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>"
    "{{ message['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def text(lines: int = 4000) -> list[str]:
    """Made sentences, the same each time."""
    chance = random.Random(1)  # noqa: S311 - not a secret
    syllables = [first + second for first in "bcdfghklmnprstvw" for second in "aeiou"]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 3))) for _ in range(400)]
    common = ["the", "a", "of", "and", "to", "in", "is", "that", "it", "one", "two", "what", "how"]
    return [
        " ".join(chance.choices(words + common * 6, k=chance.randint(4, 14))).capitalize() + "."
        for _ in range(lines)
    ]


def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer: every text has tokens, none is unknown."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END, USER, ASSISTANT, SYSTEM],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(text(), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=BEGIN, eos_token=END)
    fast.chat_template = TEMPLATE
    return fast


def model() -> LlamaForCausalLM:
    """Two layers with weights wide enough that the best token is never nearly a tie."""
    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=4096,
            initializer_range=0.15,
            tie_word_embeddings=False,
            bos_token_id=0,
            eos_token_id=1,
        )
    ).to(torch.float32)


def main(folder: Path) -> None:
    """Write the model."""
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizer()
    if len(made) != VOCABULARY:
        raise SystemExit(f"the tokenizer has {len(made)} tokens, not {VOCABULARY}")
    made.save_pretrained(folder)
    model().save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
