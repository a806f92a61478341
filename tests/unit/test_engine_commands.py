"""The command lines that the parser test looks at are all there."""

from tests.golden import update
from tests.parser.commands import engine_commands, serve_arguments


def test_each_example_has_commands() -> None:
    assert {name.split("/")[0] for name in engine_commands()} == set(update.example_names())


def test_placeholders_of_the_launcher_are_filled_in() -> None:
    container = {
        "command": ["python3", "/launch.py", "--"],
        "args": ["vllm", "serve", "m", "--node-rank={node_rank}"],
    }
    assert serve_arguments(container) == ["m", "--node-rank=1"]
    for arguments in engine_commands().values():
        assert not any("{n" in word or "{l" in word for word in arguments)
