#!/usr/bin/env python3
"""Fails if a comment of a C++ or CUDA source opens with a riddle, or a line is too long.

  tests/check_comments.py [ROOT]

A comment names its subject or says what a function does. It does not open with What, Of, Whether
and the like. Lines have at most 100 columns, except in raw strings. CONTRIBUTING.md has the rules
for comments. Exit codes: 0 no problems, 1 problems."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
FOLDERS = ("src", "include", "tools", "examples", "tests")
ENDINGS = {".cpp", ".h", ".cu", ".cuh", ".inc"}
RIDDLE = re.compile(r"^\s*// (What|Of|Whether|How|Where|That|Those|Whoever|Who|Which|Why)\b")
RAW_STRING = re.compile(r'R"([^()\s\\]{0,16})\(.*?\)\1"', re.DOTALL)
COLUMNS = 100


def problems_of(text):
    # Keeps the line ends of raw strings, so that line numbers stay correct.
    plain = RAW_STRING.sub(lambda match: '""' + "\n" * match.group().count("\n"), text)
    for number, line in enumerate(plain.splitlines(), 1):
        riddle = RIDDLE.match(line)
        if riddle:
            yield number, f"a comment opens with {riddle.group(1)!r}"
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns"


def main():
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*"))
             if file.suffix in ENDINGS]
    problems = [f"{file.relative_to(ROOT)}:{number}: {problem}" for file in files
                for number, problem in problems_of(file.read_text(encoding="utf-8"))]
    for problem in problems:
        print(problem)
    print(f"check_comments: {len(files)} sources, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
