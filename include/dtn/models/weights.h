// Model weights to and from files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "dtn/config/grid_keys.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/classifier.h"

namespace dtn {

// The model's parameters and buffers by name, as float32 handles to its values; copies when the
// model is on a device.
NamedTensors named_values(ParameterStore& store);
// The same of flat memory laid out like the store's values: a moving average.
NamedTensors named_weights(const ParameterStore& store, const Tensor& flat);

// Views into flat memory laid out like the store's parameters, by name: moments.
NamedTensors named_views(const ParameterStore& store, const Tensor& flat,
                         const std::string& prefix = "");

// Copies tensors into the parameters and buffers of the same names. Every one must be there with
// its shape and nothing may be left over; any float type is converted. Throws DataError that names
// `source` and the tensor.
void load_exact(ParameterStore& store, const NamedTensors& tensors, const std::string& source);

// Options for the head of a file: the rows to take, and whether it must fit.
struct HeadOptions {
  // Gives for each class of the model its row in a file's head of so many classes. Null: the rows
  // as they are, if there are as many.
  std::function<std::vector<std::int64_t>(std::int64_t file_classes)> rows{};
  // Throws DataError where the file has no head or one that does not fit, whose place weights at
  // random would take. False: the head is left at its initialisation then.
  bool must_fit = false;
};

// Like load_exact, for weights that were trained for something slightly different:
//  - position tables (Parameter::positions) of another grid are brought to the model's: resampled
//    by config().pos_resize, or as timm does it for the biases of windows, or computed again. Rows
//    of class token and registers stay; a class token's row joins the token itself where the model
//    has positions for the patches alone. `origin` tells the grid of the file's tables; without it
//    config().init_image_size does; without both a square number of positions is a square, and any
//    other number an error that asks for that key;
//  - a head takes the rows of the file's that `head` gives; one for another number of classes, or
//    none in the file, is left at its initialisation unless `head` forbids it; the file's is skipped
//    by a model without one;
//  - a class token is skipped by a model that has none;
//  - where the file has LayerNorms and the model another normalizer, that takes their weight and
//    bias and keeps the start of what else it has, such as DTN's lambdas and positions;
//  - fc_norm is left at its initialisation where the file has the norm ahead of the pooling.
// Tensors of vision transformers may have the names of DeiT III's, DINOv2's, MAE's and CLIP's
// releases, of Hugging Face's transformers and of torchvision. Names of any family may have the
// prefixes of wrappers, such as module.
// Returns a note for each such adaptation.
std::vector<std::string> load_adapted(Classifier& model, const NamedTensors& tensors,
                                      const std::string& source, const GridKeys& origin = {},
                                      const HeadOptions& head = {});

// Returns the grid keys of the config in the file's metadata, which is that of the model that the
// weights belong to. No keys if the file carries no config.
GridKeys origin_of(const TensorFile& file);

// 16 hexadecimal digits that differ between weights that differ, in name, type, shape or value.
std::string fingerprint_of(const NamedTensors& weights);

// load_adapted from a safetensors file and its origin_of(), with a last note of how many tensors
// needed none of it.
std::vector<std::string> load_weights(Classifier& model, const std::filesystem::path& path,
                                      const HeadOptions& head = {});
// The same from a file that has been read; `source` names it.
std::vector<std::string> load_weights(Classifier& model, const TensorFile& file,
                                      const std::string& source, const HeadOptions& head = {});

}  // namespace dtn
