#!/usr/bin/env python3
"""Checks that a change affects only comments: compares the C++ and CUDA sources of two states
without comments and white space.

  tests/compare_tokens.py [BASE]    the working tree against BASE (default: HEAD)

Comments that control tools (NOLINT, clang-format) count as code. Exit codes: 0 equal, 1 not."""
import re
import subprocess
import sys

SOURCES = (".cpp", ".h", ".cu", ".cuh", ".inc")
# A raw string, a string, a character, a comment, a word, an operator, white space, any other sign.
PARTS = re.compile(r"""R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'
                       |//(?:\\\n|[^\n])*|/\*.*?\*/|[\w']+|\#\#|\.\.\.|->\*?|<=>|<<=|>>=
                       |\+\+|--|&&|\|\||::|[-+*/%&|^=!<>]=|\s+|.""", re.DOTALL | re.VERBOSE)


def tokens(text):
    """Returns the parts of a source that affect a compiler, or a tool that comments control."""
    kept = []
    for match in PARTS.finditer(text):
        part = match.group()
        if part.startswith(("//", "/*")):
            kept += re.findall(r"NOLINT\w*(?:\([^)]*\))?|clang-format o\w+", part)
        elif not part.isspace():
            kept.append(part)
    return kept


def git(*arguments):
    return subprocess.run(("git", *arguments), check=True, text=True, capture_output=True).stdout


def main():
    base = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    changed = [name for name in git("diff", "--name-only", "--no-renames", base).splitlines()
               if name.endswith(SOURCES)]
    different = []
    for name in changed:
        try:
            with open(name, encoding="utf-8") as file:
                same = tokens(file.read()) == tokens(git("show", f"{base}:{name}"))
        except (OSError, subprocess.CalledProcessError):
            same = False  # the file exists in one state only
        if not same:
            different.append(name)
    for name in different:
        print(f"{name}: more than comments changed")
    print(f"compare_tokens: {len(changed)} sources changed, {len(changed) - len(different)} of them "
          "in comments alone")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
