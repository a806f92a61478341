"""The plugin's command line: `kubectl pd …`, or `python -m pd_cli …`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pd_cli.render import DEFAULTS, RenderError, render
from pd_operator.build import Defaults


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0, 1 where the file is wrong."""
    options = _parser().parse_args(arguments)
    defaults = Defaults(options.proxy_image, options.mooncake_image, options.cluster_domain)
    folder = Path(options.preset_dir) if options.preset_dir else None
    try:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text("utf-8")
        shown = render(text, folder, options.namespace, defaults, children=options.children)
    except (RenderError, OSError, UnicodeDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(shown, end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kubectl pd", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "render", help="print a PDDeployment with its presets merged, and its children"
    )
    command.add_argument("-f", "--file", required=True, help="YAML with a PDDeployment; - is stdin")
    command.add_argument(
        "--preset-dir", help="folder of NAME.yaml files: presets that are ConfigMaps in the cluster"
    )
    command.add_argument(
        "--children", action="store_true", help="print the children instead of the merged spec"
    )
    command.add_argument("-n", "--namespace", default="default", help="where the file names none")
    command.add_argument("--proxy-image", default=DEFAULTS.proxy_image)
    command.add_argument("--mooncake-image", default=DEFAULTS.mooncake_image)
    command.add_argument("--cluster-domain", default=DEFAULTS.cluster_domain)
    return parser


if __name__ == "__main__":
    sys.exit(main())
