#!/usr/bin/env python3
"""Doxygen's input filter: prints a public header with its plain comments in Doxygen's form.

  docs/doxygen_filter.py HEADER

The comment at the head of a header describes the file, and its type if one type of the file has no
comment. A comment above a declaration, or behind it on its line, describes the declaration. An
overload without a comment has the comment of the function before it, and so has the reference of an
operation. Lines indented by two spaces or more keep their form. Every line keeps its number."""
import re
import sys

COMMENT = re.compile(r"\s*//(?: (.*))?$")
TRAILING = re.compile(r"(.*[;,})\w])\s+// (.*)$")
TYPE = re.compile(r"\s*(?:class|struct) (\w+)(?! *;)[^;]*$")
FUNCTION = re.compile(r"(~?\w+|operator\W+?)\(")
SCOPE = re.compile(r"\b((?:namespace|class|struct|enum)\b(?: (?:class|struct))? ?[\w:]*)")
SPECIAL = re.compile(r"[\\@<>&#%]|(?<!\w)::")
ACCESS = re.compile(r"(public|protected|private):")
# Several variables in one declaration, such as `int height = 1, width = 1;`.
ONE = r"\*?\w+(?: = [^,;{}]+|\{[^}]*\})?"
SEVERAL = re.compile(rf"(\s*)([\w:<>, ]+? )({ONE}(?:, {ONE})+);$")


def escaped(text):
    """Text without meaning for Doxygen, except between backticks."""
    parts = text.split("`")
    text = "`".join(part if i % 2 else SPECIAL.sub(r"\\\g<0>", part)
                    for i, part in enumerate(parts))
    text = re.sub(r"\b(Eq|al|e\.g|i\.e)\. ", r"\1.\\ ", text)  # not the end of a sentence
    return text.replace("/*", "/&zwj;*").replace("*/", "*&zwj;/")  # no end of the comment


def described(comment):
    """The lines of a comment as Doxygen wants them: <pre> around lines that keep their form."""
    lines, in_list, in_pre = [], False, False
    for text in comment:
        is_indented = text.startswith("  ")
        in_list = bool(re.match(r"(-|\d+\.) ", text)) or in_list and is_indented
        keeps_form = is_indented and not in_list
        if in_pre and not keeps_form:
            lines[-1] += "</pre>"
        lines.append(("<pre>" if keeps_form and not in_pre else "") + escaped(text))
        in_pre = keeps_form
    if in_pre:
        lines[-1] += "</pre>"
    return lines


def on_one_line(lines):
    line = " ".join(line or "<p>" for line in lines)
    return line.replace("<pre>", "<br>").replace("</pre>", "<br>")


class Header:
    """A header, and how far it has been read and printed."""

    def __init__(self, text, path):
        self.lines = text.splitlines()
        self.name = path[path.rfind("include/") + len("include/"):]
        self.out = []
        self.comment = []  # lines above a declaration, not printed yet
        self.scopes = []  # names of open scopes; None for a body or an initializer
        self.statement = ""  # what was read of a declaration
        self.known = {}  # comments of functions
        self.head_describes = self.type_without_comment()

    def type_without_comment(self):
        """Number of the line, if there is one such type outside of others."""
        found = []
        for i, line in enumerate(self.lines):
            above = self.lines[i - 1] if i else ""
            above = self.lines[i - 2] if above.startswith("template") else above
            if TYPE.match(line) and line[0] != " " and not COMMENT.match(above):
                found.append(i)
        return found[0] if len(found) == 1 else None

    def in_body(self):
        return None in self.scopes

    def follow(self, code):
        """Follows the scopes and declarations through a line of code."""
        for part in re.split(r"([{};])", re.sub(r'"(\\.|[^"\\])*"', '""', code)):
            if part == "{":
                scope = SCOPE.search(re.sub(r"^\s*template ?<.*?>", "", self.statement))
                is_scope = scope and "(" not in self.statement
                self.scopes.append(scope[1] if is_scope else None)
            elif part == "}":
                self.scopes.pop()
            if part in ("{", "}", ";"):
                if not self.in_body():
                    self.statement = ""
            elif not self.in_body():
                self.statement += part
        in_enum = self.scopes and (self.scopes[-1] or "").startswith("enum")
        if ACCESS.match(code.strip()) or in_enum and code.endswith(","):
            self.statement = ""

    def print_comment(self, form):
        """Prints the lines above: for Doxygen if they describe what follows, else as they are."""
        indent = " " * self.indent
        lines = described(self.comment)
        for i, (text, line) in enumerate(zip(self.comment, lines)):
            if form == "plain":
                self.out.append(f"{indent}// {text}".rstrip())
            else:
                last = i == len(lines) - 1 and form == "doxygen"
                self.out.append(f"{indent}{' *' if i else '/**'} {line}{' */' if last else ''}")
        self.comment = []

    def key_of(self, code):
        """The scope and the name of a function; None for other declarations."""
        while code != (code := re.sub(r"<[^<>]*>", "", code)):
            pass
        function = FUNCTION.search(code)
        scopes = tuple(scope for scope in self.scopes if scope != "namespace reference")
        return (scopes, function[1]) if function else None

    def declaration(self, number, line):
        """A line at which a declaration begins, with its comments."""
        trailing = TRAILING.match(line)
        code = trailing[1] if trailing else line
        lines = described(self.comment)
        behind = escaped(trailing[2]) if trailing else ""
        name_at = number + code.lstrip().startswith("template")
        key = self.key_of(self.lines[name_at])
        if not lines and not behind:
            if number == self.head_describes:
                behind = f"@copydoc {self.name}"
            behind = behind or self.known.get(key, "")
        whole = on_one_line(lines + [behind] if behind else lines)
        if key and whole:
            self.known[key] = whole
        several = SEVERAL.match(code) if whole and "(" not in code else None
        self.print_comment("plain" if several else "doxygen")
        if several:
            indent, kind, names = several.groups()
            names = re.findall(ONE, names)
            code = indent + " ".join(f"/** {whole} */ {kind}{name};" for name in names)
        elif behind:
            code = f"/** {behind} */ {code}"
        self.out.append(code)

    def run(self):
        for number, line in enumerate(self.lines):
            comment = COMMENT.match(line)
            begins = not self.statement.strip() and not self.in_body()
            if comment and begins:
                self.indent = line.index("/")
                self.comment.append(comment[1] or "")
                continue
            bare = line.strip()
            if bare == "#pragma once" and self.comment:
                self.print_comment("head")
                self.out.append(" * @file */")
            elif begins and bare and not (
                    ACCESS.match(bare) or re.match(r"[})]|#(?!define)", bare)):
                self.declaration(number, line)
            else:
                self.print_comment("plain")
                self.out.append(line)
            if not bare.startswith("#") and not comment:
                self.follow(re.sub(r"\s+// .*", "", line))
        self.print_comment("plain")
        return "\n".join(self.out)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(Header(file.read(), sys.argv[1]).run())
