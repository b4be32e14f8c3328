// The words of ListOps and their fixed ids. 0 is padding. 16 is reserved for unknown words, which
// no sequence has. A table of embeddings has 17 rows, as in the Long-Range Arena.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dtn::listops {

using Token = std::uint8_t;

inline constexpr Token kDigitZero = 1;  // digits have the ids 1 .. 10
inline constexpr Token kMax = 11, kMed = 12, kMin = 13, kSum = 14, kClose = 15;
inline constexpr int kDigits = 10;
inline constexpr int kOperators = 4;
inline constexpr int kVocabulary = 17;

inline constexpr std::array<std::string_view, kVocabulary> kWords = {
    "", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "[MAX", "[MED", "[MIN", "[SM", "]", ""};

constexpr bool is_digit(Token token) { return kDigitZero <= token && token < kDigitZero + kDigits; }
constexpr bool is_operator(Token token) { return kMax <= token && token <= kSum; }
constexpr int digit_of(Token token) { return token - kDigitZero; }

}  // namespace dtn::listops
