// Names that other programs give to config keys, for the suggestions in error messages.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace dtn::config {

struct KeySynonym {
  std::string word;  // lower case, with underscores
  const char* path;
};
// Names from timm, DeiT, Hugging Face and Keras that are not keys here.
const std::vector<KeySynonym>& key_synonyms();

// Returns the paths among `known` that `word` may mean: the path of a synonym, or else the keys
// whose last part is `word`. Ignores case, and reads "-" as "_". Empty if there is no match.
std::vector<std::string> paths_meant_by(const std::string& word,
                                        const std::set<std::string>& known);

}  // namespace dtn::config
