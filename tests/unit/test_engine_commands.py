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


def test_members_of_a_group_have_their_own_arguments() -> None:
    commands = engine_commands()
    (worker,) = [v for k, v in commands.items() if k.startswith("two-pods-cpu/") and "worker" in k]
    (leader,) = [v for k, v in commands.items() if k.startswith("two-pods-cpu/") and "leader" in k]
    assert worker[-3:] == [
        "--headless", "--data-parallel-address=127.0.0.1", "--data-parallel-start-rank=1",
    ]  # fmt: skip
    assert leader[-1] == "--data-parallel-address=127.0.0.1"
