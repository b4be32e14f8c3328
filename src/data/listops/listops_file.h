// The files of Long ListOps: a header, then a source, a tab and a digit in each line. Parentheses
// of a source carry no information and are dropped. `X` stands for `]`, as in files that went
// through the Long-Range Arena's loader. Lines end in LF or CRLF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/listops/expression.h"
#include "io/file.h"

namespace dtn::listops {

inline constexpr std::string_view kHeader = "Source\tTarget";
inline constexpr const char* kTrainFile = "basic_train.tsv";
inline constexpr const char* kValFile = "basic_val.tsv";
inline constexpr const char* kTestFile = "basic_test.tsv";

// Concatenated sequences of tokens, one byte per token.
struct LabelledSequences {
  std::vector<Token> tokens;
  std::vector<std::size_t> ends;  // end of each sequence in `tokens`
  std::vector<std::int64_t> labels;

  std::size_t size() const { return ends.size(); }
  std::span<const Token> at(std::size_t i) const {
    const std::size_t begin = i > 0 ? ends[i - 1] : 0;
    return std::span(tokens).subspan(begin, ends[i] - begin);
  }
};

// Reads a file piece by piece. Throws DataError with file and line for a malformed line, an unknown
// word, and brackets that do not match. The values of expressions are not computed.
LabelledSequences read_sequences(const ByteSource& file);

}  // namespace dtn::listops
