#include "data/feed/token_samples.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/format.h"
#include "data/classes/class_counts.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/crc32c.h"

namespace dtn {
namespace {

struct TokenWorkspace final : SampleSource::Workspace {
  SampleWorkspace sample;
};

}  // namespace

TokenSamples::TokenSamples(std::shared_ptr<const Dataset> dataset,
                           const TokenSamplesOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  DTN_CHECK(options_.max_length >= 1, "max_length ", options_.max_length, " must be at least 1");
  if (dataset_->vocabulary() == 0) {
    throw ConfigError(cat("the model takes sequences of tokens, but the data set has images: ",
                          dataset_->description(), "; set data.dataset: listops"));
  }
  std::int64_t cut = 0;
  for (std::int64_t i = 0; i < size(); ++i) cut += dataset_->length(i) > options_.max_length;
  if (cut == 0) return;
  log_warn(cat(cut, " of ", counted(size(), "sequences"), cut == 1 ? " is" : " are",
               " cut to model.max_length ", options_.max_length, ": ", description()));
}

std::string TokenSamples::identity(std::int64_t index) const {
  SampleWorkspace workspace;
  const Sample sample = dataset_->load(index, workspace);
  return cat(crc32c(std::as_bytes(sample.tokens)), " ", dataset_->label(index));
}

std::vector<std::int64_t> TokenSamples::labels() const { return labels_of(*dataset_); }

std::vector<std::int64_t> TokenSamples::lengths() const {
  std::vector<std::int64_t> all;
  if (!options_.batches_by_length) return all;
  for (std::int64_t i = 0; i < size(); ++i) {
    all.push_back(std::min(dataset_->length(i), options_.max_length));
  }
  return all;
}

std::vector<FieldSpec> TokenSamples::host_fields() const {
  return {{"tokens", {options_.max_length}, DType::kInt64, true}, {"label", {}, DType::kInt64}};
}

std::unique_ptr<SampleSource::Workspace> TokenSamples::make_workspace() const {
  return std::make_unique<TokenWorkspace>();
}

void TokenSamples::make(std::int64_t index, const SampleKey&, FieldRow& row,
                        Workspace& workspace) const {
  const Sample sample = dataset_->load(index, static_cast<TokenWorkspace&>(workspace).sample);
  const auto length = static_cast<std::int64_t>(sample.tokens.size());
  const std::span<std::int64_t> tokens =
      row.ragged<std::int64_t>("tokens", std::min(length, options_.max_length));
  std::copy_n(sample.tokens.begin(), tokens.size(), tokens.begin());
  row.at<std::int64_t>("label")[0] = dataset_->label(index);
}

}  // namespace dtn
