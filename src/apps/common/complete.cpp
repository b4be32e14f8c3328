#include "apps/common/complete.h"

#include <algorithm>
#include <sstream>

#include "apps/common/commands.h"
#include "config/document.h"
#include "config/key_docs.h"
#include "data/corrupt/corruptions.h"
#include "dtn/config/load.h"
#include "dtn/tasks/registries.h"

namespace dtn {
namespace {

// `dtn` and the links to it.
std::vector<std::string> programs() {
  std::vector<std::string> names = {"dtn"};
  for (const app::Command& command : app::commands()) names.emplace_back(command.program);
  return names;
}

// Splits a line into words. The last word is empty if the cursor follows a space.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  if (line.empty() || line.back() == ' ' || line.back() == '\t') words.emplace_back();
  return words;
}

// Returns the subcommand that the words name, or else the program.
const CLI::App& command_of(const CLI::App& app, const std::vector<std::string>& words) {
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    for (const CLI::App* sub : app.get_subcommands({})) {
      if (sub->get_name() == words[i]) return *sub;
    }
  }
  return app;
}

// Parses "{a,b}", the type name that CLI11 gives to a list of allowed words.
std::vector<std::string> allowed_words(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> words;
  if (open == std::string::npos || close == std::string::npos) return words;
  std::istringstream in(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}

// Returns "key=" for each key. If `word` has a key, returns the key with each of its named values.
std::vector<std::string> overrides_for(const std::string& word) {
  const std::size_t equals = word.find('=');
  std::vector<std::string> out;
  for (const config::KeyDoc& doc : config::key_docs(standard_registries().schemas())) {
    if (equals == std::string::npos) {
      out.push_back(doc.path + "=");
    } else if (doc.path == word.substr(0, equals)) {
      for (const std::string& choice : doc.choices) out.push_back(doc.path + "=" + choice);
      if (doc.allowed == "true or false") {
        for (const char* value : {"true", "false"}) out.push_back(doc.path + "=" + value);
      }
    }
  }
  return out;
}

std::vector<std::string> values_of(const CLI::Option& option, const std::string& word) {
  const std::string name = option.get_lnames().empty() ? "" : option.get_lnames().front();
  if (name == "set") return overrides_for(word);
  if (name == "config") return shipped_configs();
  if (name == "device") return {"auto", "cpu", "cuda"};
  if (name == "resume") return {"auto"};
  if (name == "corruption") {
    std::vector<std::string> names = {"all"};
    for (const Corruption& corruption : corruptions()) names.emplace_back(corruption.name);
    return names;
  }
  if (name == "completion") return {"bash", "zsh", "fish"};
  if (name == "keys") {
    std::vector<std::string> paths;
    for (const auto& doc : config::key_docs(standard_registries().schemas())) {
      paths.push_back(doc.path);
    }
    return paths;
  }
  return allowed_words(option);
}

}  // namespace

std::vector<std::string> completions(const CLI::App& app, const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  const std::string& word = words.back();
  const CLI::App& command = command_of(app, words);
  const std::string last = words.size() > 2 ? words[words.size() - 2] : "";
  const CLI::Option* before = last.starts_with("--") ? command.get_option_no_throw(last) : nullptr;
  std::vector<std::string> candidates;
  if (before && before->get_items_expected_max() > 0) {
    candidates = values_of(*before, word);
  } else {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) candidates.push_back("--" + name);
    }
    if (&command == &app) {
      for (const CLI::App* sub : app.get_subcommands({})) candidates.push_back(sub->get_name());
    }
  }
  std::erase_if(candidates, [&](const std::string& c) { return !c.starts_with(word); });
  std::ranges::sort(candidates);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  return candidates;
}

std::string completion_script(const std::string& shell) {
  const std::string names = config::join(programs(), " ");
  // Bash splits words at "=", and replaces only the part after it.
  const std::string bash = R"(_dtn() {
  local line="${COMP_LINE:0:COMP_POINT}" word
  word="${line##*[[:space:]]}"
  local IFS=$'\n'
  COMPREPLY=($(DTN_COMPLETE_LINE="$line" "${COMP_WORDS[0]}" "${COMP_WORDS[1]}" 2>/dev/null))
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  fi
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
)";
  if (shell == "bash") return bash + "complete -o default -F _dtn " + names + "\n";
  if (shell == "zsh") {
    return cat("#compdef ", names, "\n", R"(_dtn() {
  local line="${LBUFFER}" found
  found=("${(@f)$(DTN_COMPLETE_LINE="$line" "${words[1]}" "${words[2]}" 2>/dev/null)}")
  if [[ -n ${found[1]} ]]; then
    compadd -S '' -- "${found[@]}"
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _dtn ]]; then
  _dtn "$@"
else
  compdef _dtn )",
               names, "\nfi\n");
  }
  std::string fish;
  for (const std::string& program : programs()) {
    fish += cat("complete -c ", program,
                " -a '(set -l w (commandline -opc); DTN_COMPLETE_LINE=(commandline -cp) ", program,
                " $w[2] 2>/dev/null)'\n");
  }
  return fish;
}

}  // namespace dtn
