// Writes the documentation of keys for terminals and as Markdown.
#include <algorithm>

#include "config/document.h"
#include "config/key_docs.h"

namespace dtn::config {
namespace {

constexpr const char* kIntroduction =
    R"(# Config keys

This page lists every config key. `dtn-info --keys --markdown > docs/config.md` makes it from the tables that read
configs, and a test fails if it is out of date. `dtn-info --keys` shows the same on a terminal, and
`dtn-info --keys optim` a part of it. `dtn-train --config C --print-config=commented` prints the values of a config,
with these texts as comments.

A config is YAML: sections with keys, as in `optim: {lr: 1.0e-03}`. On a command line, a key is
`--set optim.lr=1e-3`. Only `model.preset` must be set. `null` restores the default; the default of some keys is
*unset*, which means no value. `base:` names one config or a list of configs to start from, by file or by shipped name.
The keys of the file itself replace those of `base`. `model.norm: dtn` is short for `model.norm.type: dtn`, and
`augment: deit` for `augment.preset: deit`.

*Read by* lists the model families, normalizers, data sets, optimizers or schedules that read a key; the others refuse
it. Without such a list, all of them read the key.
)";

constexpr std::size_t kMarkdownColumns = 120;

// Escapes characters with a special meaning in Markdown, outside of code.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '*' || c == '<' || c == '|' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

std::string facts_of(const KeyDoc& doc, std::string (*write)(const std::string&)) {
  std::string out = cat(write(doc.allowed), "; default ", write(doc.default_value));
  if (!doc.read_by.empty()) out += cat("; read by: ", write(join(doc.read_by)));
  return out;
}

std::string as_it_is(const std::string& text) { return text; }

}  // namespace

std::string wrapped(const std::string& text, std::size_t columns, const std::string& indent) {
  std::string out, line;
  const auto flush = [&] {
    out += cat(indent, line, "\n");
    line.clear();
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > columns) flush();
    line += line.empty() ? word : cat(" ", word);
  }
  if (!line.empty()) flush();
  return out;
}

std::string to_text(const std::vector<KeyDoc>& docs, std::size_t columns) {
  std::string out;
  for (const KeyDoc& doc : docs) {
    out += cat(doc.path, ": ", doc.example, "\n");
    out += wrapped(doc.meaning, columns, "    ");
    out += wrapped(facts_of(doc, as_it_is), columns, "    ");
  }
  return out;
}

std::string to_markdown(const std::vector<KeyDoc>& docs) {
  std::string out = kIntroduction, section;
  for (const KeyDoc& doc : docs) {
    const std::string here = section_of(doc.path);
    if (here != section) out += cat("\n## ", here, "\n");
    if (here != section || section.empty()) out += "\n";
    section = here;
    const std::string text =
        cat("- **`", doc.path, "`**: ", escaped(doc.meaning), ". *", facts_of(doc, escaped),
            "; for example* `", leaf_of(doc.path), ": ", doc.example, "`");
    std::string item = wrapped(text, kMarkdownColumns, "  ");
    item.erase(0, 2);
    out += item;
  }
  return out;
}

}  // namespace dtn::config
