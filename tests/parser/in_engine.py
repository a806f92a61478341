"""Runs in the engine image: which argument lists of `vllm serve` does vLLM's own parser take?

Reads {name: [argument, ...]} as JSON from the file argv[1]; prints {name: error or null} as the
last line. JSON values such as --kv-transfer-config are checked key by key by vLLM's own models.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

from vllm.engine.arg_utils import AsyncEngineArgs  # type: ignore[import-not-found,unused-ignore]
from vllm.entrypoints.launchers.cli_args import (  # type: ignore[import-not-found,unused-ignore]
    make_arg_parser,
    validate_parsed_serve_args,
)
from vllm.utils.argparse_utils import (  # type: ignore[import-not-found,unused-ignore]
    FlexibleArgumentParser,
)


def error_of(arguments: list[str]) -> str | None:
    """What vLLM says against the arguments; None where it takes them."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
            validate_parsed_serve_args(parsed)
            AsyncEngineArgs.from_cli_args(parsed)
        except SystemExit:
            return said.getvalue().rpartition("error: ")[2].strip() or "the parser ended"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    """Print what vLLM says of each list."""
    lists = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({name: error_of(arguments) for name, arguments in lists.items()}))


if __name__ == "__main__":
    main()
