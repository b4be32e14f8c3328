#!/usr/bin/env python3
"""Checks the sources of a build with clang, with warnings as errors.

compile_with_clang.py BUILD FOLDER...: checks the sources below the folders, and the files of BUILD
that combine the sources of a layer (DTN_UNITY). BUILD was configured with clang as its compiler;
nothing is written there. A source that several targets compile alike is checked once.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def syntax_check(command):
    """Returns the command that checks the syntax of the source and writes nothing."""
    words = shlex.split(command)
    while "clang" not in os.path.basename(words[0]):
        words.pop(0)  # ccache
    kept = []
    words = iter(words)
    for word in words:
        if word in ("-o", "-MF", "-MT"):
            next(words)
        elif word not in ("-c", "-MD"):
            kept.append(word)
    return kept + ["-fsyntax-only", "-Werror"]


def run(check):
    command, folder = check
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stderr


def main():
    database = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    folders = [pathlib.Path(folder).resolve() for folder in sys.argv[2:]]
    checks = {}
    for entry in database:
        source = pathlib.Path(entry["file"])
        if "Unity" not in source.parts and not any(map(source.is_relative_to, folders)):
            continue
        command = syntax_check(entry["command"])
        checks.setdefault(tuple(command), entry["directory"])
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, message in pool.map(run, checks.items()):
            if code != 0:
                failed += 1
                print(message, flush=True)
    if not checks or failed:
        sys.exit(f"compile_with_clang: {failed} of {len(checks)} sources do not compile")
    print(f"compile_with_clang: {len(checks)} compilations, no warnings")


if __name__ == "__main__":
    main()
