#!/usr/bin/env python3
"""Fails when two files define a type of the same name in the same namespace.

The linker keeps one of the two and says nothing: the destructor of one type then runs on objects of
the other. Types of an unnamed namespace belong to their file alone and may share names.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
FOLDERS = ("include", "src", "tools", "tests")

OPENING = re.compile(r"^(?:inline )?namespace ?([\w:]*) ?\{")
CLOSING = re.compile(r"^\}  // namespace")
# The form is that of clang-format: what stands in a namespace starts in the first column.
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class)?) (?:alignas\([^)]*\) )?(\w+)(?: final)?"
                  r"(?: : [^;]*| ?)\{")


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
    if shared:
        sys.exit(f"check_names: {len(shared)} names stand for several types; rename or unname them")
    print(f"check_names: {len(places)} types, each of one file")


if __name__ == "__main__":
    main()
