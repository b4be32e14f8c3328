// ListOps files: any result other than sequences of known words with digits as labels, or a
// DataError, is a bug. Writing the sequences and reading them again does not change them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "data/listops/expression.h"
#include "data/listops/listops_file.h"
#include "dtn/core/check.h"

namespace {

std::string written(const dtn::listops::LabelledSequences& sequences) {
  std::string text = "Source\tTarget\n";
  dtn::listops::Speller speller;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    speller.append(sequences.at(i), text);
    text += '\t' + std::to_string(sequences.labels[i]) + '\n';
  }
  return text;
}

dtn::listops::LabelledSequences read(std::span<const std::byte> bytes) {
  return dtn::listops::read_sequences(dtn::MemorySource(bytes, "fuzz"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const dtn::listops::LabelledSequences found = read(std::as_bytes(std::span(data, size)));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const int value = dtn::listops::value_of(found.at(i));
      if (value < 0 || value > 9 || found.labels[i] < 0 || found.labels[i] > 9) std::abort();
    }
    const std::string text = written(found);
    const dtn::listops::LabelledSequences again =
        read(std::as_bytes(std::span(text.data(), text.size())));
    if (again.tokens != found.tokens || again.ends != found.ends || again.labels != found.labels) {
      std::abort();
    }
  } catch (const dtn::DataError&) {
  }
  return 0;
}
