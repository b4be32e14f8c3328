// Parts that the conditional normalizers share: checks of their input, and their form as a
// normalizer of a model.
#pragma once

#include <memory>

#include "dtn/nn/conditional_norm.h"
#include "ops/norm/channel_norm.h"

namespace dtn {

// Throws Error unless x is [B, T, channels] with the tokens of the grid.
void check_tokens(const char* layer, const Variable& x, const TokenGrid& grid,
                  std::int64_t channels);

// Returns the condition's vectors, [batch, size], converted to `dtype`. Throws Error if the
// condition holds something else.
Variable condition_vector(Context&, const char* layer, const Condition&, std::int64_t batch,
                          std::int64_t size, DType dtype);
// Returns the condition's vectors for tokens, [batch, tokens, size]. If `tokens` is 0, accepts any
// number of tokens. Throws Error if the condition holds something else.
const Variable& condition_tokens(const char* layer, const Condition&, std::int64_t batch,
                                 std::int64_t tokens, std::int64_t size);
// Returns true if the condition is a vector [batch, styles] that mixes styles, and false if it is
// an index [batch]. Throws Error otherwise.
bool check_styles(const char* layer, const Condition&, std::int64_t batch, std::int64_t styles);
// Throws Error if there is a condition.
void check_no_condition(const char* layer, const Condition&);
// Returns the condition of the context. Throws Error if there is none.
const Condition& condition_in(const Context&, const char* layer);
// Describes a condition in messages: "a vector for each sample, [2, 16]".
std::string text_of(const Condition&);

// Makes a normalizer of the layer, which reads the condition of the context. `per_token`: see
// Normalizer::is_per_token().
std::unique_ptr<Normalizer> make_conditioned(const char* type, bool per_token,
                                             std::unique_ptr<ConditionalNormalizer> layer);
// The option `hidden`: the width of the network between a condition and gains and shifts.
OptionSchema hidden_option(std::int64_t usual);
// NormSchema::check of a normalizer whose gain and shift come from a condition.
std::optional<NormProblem> check_conditioned(const NormConfig&, const NormSite&);

}  // namespace dtn
