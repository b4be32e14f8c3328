// Checks that a text is one well-formed XML element, for the XML that our writers produce.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace dtn {

// Returns the fault, or an empty string. In HTML, elements without an end, such as <meta>, may stay
// open.
inline std::string xml_fault(std::string_view text, bool html = false) {
  std::vector<std::string> open;
  std::size_t at = 0, elements = 0;
  auto entity_at = [&](std::size_t i) {
    for (std::string_view e : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (text.substr(i, e.size()) == e) return true;
    }
    return false;
  };
  while (at < text.size()) {
    if (text[at] == '&' && !entity_at(at)) return "a bare & at " + std::to_string(at);
    if (text[at] == '>') return "a bare > at " + std::to_string(at);
    if (text[at] != '<') {
      if (open.empty() && !std::isspace(static_cast<unsigned char>(text[at]))) {
        return "text outside of all elements";
      }
      ++at;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string_view::npos) return "a tag without end";
    std::string_view tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with('!')) continue;
    const bool closing = tag.starts_with('/'), alone = tag.ends_with('/');
    if (closing) tag.remove_prefix(1);
    if (alone) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find_first_of(" \n")));
    if (closing) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
      continue;
    }
    if (open.empty() && elements++ > 0) return "two outermost elements";
    // Attributes: name="value", with a space before each.
    std::size_t i = name.size();
    while (i < tag.size()) {
      if (tag[i] != ' ' && tag[i] != '\n') return "no space before an attribute of <" + name + ">";
      const std::size_t sign = tag.find("=\"", i);
      const std::size_t quote = sign == std::string_view::npos ? sign : tag.find('"', sign + 2);
      if (quote == std::string_view::npos) return "an attribute of <" + name + "> without value";
      if (tag.substr(sign + 2, quote - sign - 2).find('<') != std::string_view::npos) {
        return "a < in an attribute of <" + name + ">";
      }
      i = quote + 1;
    }
    const bool empty = html && (name == "meta" || name == "link" || name == "br" || name == "img" ||
                                name == "input");
    if (name == "style" || name == "script") {  // contains no markup, but > in selectors
      const std::size_t rest = text.find("</" + name + ">", at);
      if (rest == std::string_view::npos) return "<" + name + "> without end";
      at = rest;
    }
    if (!alone && !empty) open.push_back(name);
  }
  if (!open.empty()) return "<" + open.back() + "> is not closed";
  return elements == 1 ? "" : "no element";
}

}  // namespace dtn
