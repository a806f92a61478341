"""Make the tiny model, a Llama with random weights and a tokenizer trained on made text, and a LoRA
adapter for it, random as well."""

import json
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
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


def write_adapter(folder: Path, of: LlamaForCausalLM, rank: int = 8) -> None:
    """A LoRA adapter in PEFT's format, strong enough to change every answer, and the KV with it."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = ("q_proj", "k_proj", "v_proj", "o_proj")
    torch.manual_seed(2)
    weights = {}
    for name, layer in of.named_modules():
        if name.endswith(targets):
            down = torch.randn(rank, layer.in_features) * 0.15
            up = torch.randn(layer.out_features, rank) * 0.15
            weights[f"base_model.model.{name}.lora_A.weight"] = down
            weights[f"base_model.model.{name}.lora_B.weight"] = up
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 2 * rank,
        "bias": "none", "target_modules": list(targets),
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config))


def main(folder: Path) -> None:
    """Write the model, and beside it its adapter: `<folder>-lora`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizer()
    if len(made) != VOCABULARY:
        raise SystemExit(f"the tokenizer has {len(made)} tokens, not {VOCABULARY}")
    made.save_pretrained(folder)
    llama = model()
    llama.save_pretrained(folder)
    write_adapter(folder.with_name(f"{folder.name}-lora"), llama)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
