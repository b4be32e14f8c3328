#!/usr/bin/env python3
"""Fails if two files define a type of the same name in the same namespace, or a test chooses its
own temporary folder.

The linker keeps one of the two types and says nothing: the destructor of one type then runs on
objects of the other. Types of an unnamed namespace belong to their file alone and may share names.
Tests run at the same time in several processes, and a folder that two of them share fails both.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
FOLDERS = ("include", "src", "tools", "tests")

OPENING = re.compile(r"^(?:inline )?namespace ?([\w:]*) ?\{")
CLOSING = re.compile(r"^\}  // namespace")
# Relies on clang-format: declarations in a namespace start in the first column.
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (?:alignas\([^)]*\) )?(\w+)(?: final)?"
                  r"(?: : [^;]*| ?)\{")
TEMP_FOLDER = "tests/temp_folder.h"
PRIVATE_FOLDER = re.compile(r"\b(?:TempDir(?= *\()|temp_directory_path\b|mkdtemp\b)")


def types_of(path):
    namespaces = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if opening := OPENING.match(line):
            if "}" not in line:
                namespaces.append(opening.group(1))
        elif CLOSING.match(line):
            namespaces.pop()
        elif (found := TYPE.match(line)) and "" not in namespaces:
            yield "::".join([*namespaces, found.group(1)]), number


def private_folders(path):
    name = path.relative_to(ROOT).as_posix()
    if not name.startswith("tests/") or name == TEMP_FOLDER:
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := PRIVATE_FOLDER.search(line):
            yield f"{name}:{number}: use TempFolder of {TEMP_FOLDER} instead of {found.group()}"


def main():
    files = [p for d in FOLDERS for p in sorted((ROOT / d).rglob("*"))
             if p.suffix in (".h", ".cpp", ".cu", ".cuh")]
    if not files:
        sys.exit(f"check_names: found no sources under {ROOT}")
    places = collections.defaultdict(dict)  # name -> file -> line: a file may choose by #if
    for path in files:
        for name, number in types_of(path):
            places[name].setdefault(path.relative_to(ROOT).as_posix(), number)
    shared = {name: where for name, where in places.items() if len(where) > 1}
    for name, where in sorted(shared.items()):
        print(f"{name}: defined by " + " and ".join(f"{f}:{n}" for f, n in where.items()))
    folders = [problem for path in files for problem in private_folders(path)]
    for problem in folders:
        print(problem)
    if shared:
        sys.exit(f"check_names: {len(shared)} names stand for several types; rename or unname them")
    if folders:
        sys.exit(f"check_names: {len(folders)} lines make a temporary folder without TempFolder")
    print(f"check_names: {len(places)} types, each of one file")


if __name__ == "__main__":
    main()
