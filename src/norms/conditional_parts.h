// What the conditional normalizers share: checks of what they are given.
#pragma once

#include "dtn/nn/conditional_norm.h"
#include "ops/channel_norm.h"

namespace dtn {

// Throws Error unless x is [B, T, channels] with the tokens of the grid.
void check_tokens(const char* layer, const Variable& x, const TokenGrid& grid,
                  std::int64_t channels);

// The condition's vectors, [batch, size], in the type `dtype`. Throws Error when it holds something
// else.
Variable condition_vector(Context&, const char* layer, const Condition&, std::int64_t batch,
                          std::int64_t size, DType dtype);
// Its vectors for tokens, [batch, tokens, size]; any number of tokens when `tokens` is 0.
const Variable& condition_tokens(const char* layer, const Condition&, std::int64_t batch,
                                 std::int64_t tokens, std::int64_t size);
// Throws Error unless it is an index [batch], or a vector [batch, styles] to mix with: true then.
bool check_styles(const char* layer, const Condition&, std::int64_t batch, std::int64_t styles);
// Throws Error when there is a condition.
void check_no_condition(const char* layer, const Condition&);
// What a condition is, for messages: "a vector for each sample, [2, 16]".
std::string text_of(const Condition&);

// The registry's row of a layer that no config can choose.
NormRow layer_row(const char* type, const char* doc, const char* needs);

}  // namespace dtn
