// Keys of a config by the names that other programs give them, for the suggestions of errors.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace dtn::config {

struct KeySynonym {
  const char* word;  // lower case, with underscores
  const char* path;
};
// Names of other programs that are not keys here: timm's, DeiT's, Hugging Face's, Keras's.
const std::vector<KeySynonym>& key_synonyms();

// The paths among `known` that `word` may mean: the synonym, or else the keys whose last part it is.
// Case does not count, and "-" is "_". Empty if there is none.
std::vector<std::string> paths_meant_by(const std::string& word,
                                        const std::set<std::string>& known);

}  // namespace dtn::config
