#!/usr/bin/env python3
"""Writes the API reference with doxygen. Fails on a warning or a missing comment.

  tests/check_api_reference.py DOXYFILE    the Doxyfile.docs of a build folder

Every header, type, alias, macro, free function and public member function needs a comment, except
where the name says all: constructors, operators, functions with a body of one line, overrides (the
comment of the base counts), structs named Options, and variables. Exit codes: 0 no problems, 1
problems, 77 there is no doxygen."""
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

NEEDED = {"function", "enum", "typedef", "define"}
TYPES = {"class", "struct", "file", "namespace"}


def has_comment(element):
    return any("".join(element.find(name).itertext()).strip()
               for name in ("briefdescription", "detaileddescription"))


def name_says_all(function, type_name):
    name, body = function.findtext("name"), function.find("location")
    return (name.lstrip("~") == type_name or name.startswith("operator")
            or body.get("bodystart") is not None and body.get("bodystart") == body.get("bodyend")
            or function.find("reimplements") is not None)


def without_comment(compound):
    """Yields the places in a type, file or namespace that need a comment and have none."""
    kind, name = compound.get("kind"), compound.findtext("compoundname")
    last = re.sub(r"<.*", "", name).split("::")[-1]
    is_type = kind in ("class", "struct")
    if compound.find("location").get("file") in ("[generated]", "docs/api.md"):
        return
    if not has_comment(compound) and last != "Options" and "<" not in name:
        yield compound.find("location").get("file"), name
    for member in compound.iter("memberdef"):
        if member.get("prot") == "private" or member.get("kind") not in NEEDED:
            continue
        if is_type and member.get("kind") == "function" and name_says_all(member, last):
            continue
        if not has_comment(member):
            place = member.find("location")
            yield f"{place.get('file')}:{place.get('line')}", member.findtext("name")


def main():
    doxygen = shutil.which("doxygen")
    if not doxygen:
        print("check_api_reference: there is no doxygen; nothing was checked")
        return 77
    doxyfile = pathlib.Path(sys.argv[1])
    if subprocess.run((doxygen, doxyfile), cwd=pathlib.Path(__file__).parent.parent).returncode:
        print("check_api_reference: doxygen warns, see above")
        return 1
    problems = set()
    for file in (doxyfile.parent / "docs/xml").glob("*.xml"):
        for compound in ElementTree.parse(file).iter("compounddef"):
            if compound.get("kind") in TYPES and compound.get("prot") != "private":
                problems.update(without_comment(compound))
    for place, name in sorted(problems):
        print(f"{place}: {name} has no comment")
    print(f"check_api_reference: {len(problems)} comments are missing")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
