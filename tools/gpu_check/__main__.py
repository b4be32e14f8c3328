"""Entry point of `python3 tools/gpu_check` (a folder) and `python3 -m gpu_check` (a package)."""
import pathlib
import sys

if not __package__:
    sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from gpu_check.cli import main  # noqa: E402  (the path comes first)

sys.exit(main(sys.argv[1:]))
