#!/usr/bin/env python3
"""Checks that every file that comments and documents name exists.

  tests/check_paths.py [ROOT]

Comments of C++, CUDA, CMake, Python and shell sources name files by a path, or by its end:
`kernels/gemm/gemm.h`. `"A heading" in README.md` names a section. Links in Markdown lead to files
and headings. Paths in backticks with a folder before the name exist. Exit codes: 0 all exist, 1
some do not."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()

# Files of other projects.
OTHERS = {"timm/models/vision_transformer.py", "deit.py", "data/auto_augment.py", "jpeglib.h",
          "jerror.h", "Operators.md", "nccl.h", "cuda_runtime.h", "cublasLt.h", "stb_image.h"}
# Files that a user or a run writes, in examples.
USERS = {"docs/extending.md": {"src/nn/norms/mean_size.cpp"}, "docs/sweeps.md": {
    "runs/fashion_mnist_lambda/table.md"}}
COMMENTS = {".cpp": "//", ".h": "//", ".cu": "//", ".cuh": "//", ".py": "#", ".sh": "#",
            ".cmake": "#", "CMakeLists.txt": "#"}
NAMED = re.compile(r"(?<![\w*<>{}$/.-])[\w./-]*\w\.(?:h|cuh|cu|cpp|py|sh|md|cmake)\b(?![*<>{}])")
SECTION = re.compile(r'"([^"]+)" in ([\w./-]+\.md)')
LINK = re.compile(r"\]\(([^)\s]+)\)")
QUOTED_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:h|cuh|cu|cpp|py|sh|md|cmake|yaml|json))`")


def tracked():
    """Returns the files of the project. None without git: then other files may lie beside them."""
    try:
        found = subprocess.run(("git", "-C", str(ROOT), "ls-files"), check=True, text=True,
                               capture_output=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in found if (ROOT / name).is_file()]


def ends_of(files):
    """Returns each path, and its ends without the first folders."""
    ends = set()
    for name in files:
        parts = name.split("/")
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    return ends


def headings(text):
    return re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE)


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchor(heading):
    """Returns the name of a heading in links, as GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def comments_of(name, mark):
    for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
        at = line.find(mark)
        if at >= 0 and '"' not in line[:at] and "'" not in line[:at]:
            yield number, line[at + len(mark):]


def problems_of_source(name, mark, ends, documents):
    for number, comment in comments_of(name, mark):
        for path in NAMED.findall(comment):
            if path not in ends and path not in OTHERS:
                yield f"{name}:{number}: there is no {path}"
        for heading, document in SECTION.findall(comment):
            known = [h for file, text in documents.items() if ("/" + file).endswith("/" + document)
                     for h in headings(text)]
            if heading not in known:
                yield f"{name}:{number}: {document} has no section {heading!r}"


def problems_of_document(name, documents, ends):
    text = without_code(documents[name])
    for link in LINK.findall(text):
        if re.match(r"\w+:", link):
            continue
        path, _, wanted = link.partition("#")
        to = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not (ROOT / to).exists():
            yield f"{name}: the link {link} leads nowhere"
        elif wanted and to in documents and wanted not in map(anchor, headings(documents[to])):
            yield f"{name}: {to} has no heading for the link {link}"
    for path in QUOTED_PATH.findall(text):
        if path not in ends and path not in OTHERS | USERS.get(name, set()):
            yield f"{name}: there is no {path}"


def main():
    files = tracked()
    if not files:
        print("check_paths: this is no git checkout; nothing was checked")
        return 0
    ends = ends_of(files)
    documents = {name: (ROOT / name).read_text(encoding="utf-8") for name in files
                 if name.endswith(".md")}
    problems = []
    for name in files:
        for ending, mark in COMMENTS.items():
            if name.endswith(ending):
                problems += problems_of_source(name, mark, ends, documents)
        if name in documents:
            problems += problems_of_document(name, documents, ends)
    for problem in problems:
        print(problem)
    print(f"check_paths: {len(problems)} names of files or sections lead nowhere")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
