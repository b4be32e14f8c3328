// Loading and saving of model weights.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "dtn/config/grid_keys.h"
#include "dtn/io/safetensors.h"
#include "dtn/models/classifier.h"
#include "dtn/models/presets.h"

namespace dtn {

// The model's parameters and buffers by name, as float32 handles to its values; copies if the model
// is on another device than the CPU.
NamedTensors named_values(ParameterStore& store);
// The same for flat memory laid out like the store's values, such as a moving average.
NamedTensors named_weights(const ParameterStore& store, const Tensor& flat);

// Named views into flat memory laid out like the store's parameters, such as moments.
NamedTensors named_views(const ParameterStore& store, const Tensor& flat,
                         const std::string& prefix = "");

// Copies tensors into the parameters and buffers with the same names. Every parameter and buffer
// must be present with its shape, and there may be no other tensors. Any float type is converted.
// Throws DataError that names `source` and the tensor.
void load_exact(ParameterStore& store, const NamedTensors& tensors, const std::string& source);

// Treatment of the head of a weights file: the rows to take, and whether it must fit.
struct HeadOptions {
  // Returns for each class of the model its row in the file's head, which has file_classes classes.
  // Null: all rows in their order, if the numbers are equal.
  std::function<std::vector<std::int64_t>(std::int64_t file_classes)> rows{};
  // True: throws DataError if the file has no head or one that does not fit, because random weights
  // would take its place. False: the head then keeps its initialisation.
  bool must_fit = false;
  // Reason why a model without classes does not use the file's head, for a note.
  const char* why_unused = "model.num_classes is 0";
};

// load_exact() with adaptations, for weights trained for a slightly different model:
//  - Position tables (Parameter::positions) of another grid are converted to the model's grid:
//    resampled by config().pos_resize, or as in timm for window biases, or computed again. Rows of
//    class token and registers are kept. If the model has positions only for patches, the class
//    token's row is added to the token. The grid of the file's tables comes from `origin`, else
//    from config().init_image_size. Without both, a square number of positions means a square grid,
//    and any other number is an error that asks for init_image_size.
//  - A head takes the rows of the file's head that `head` selects. If the numbers of classes differ
//    or the file has no head, it keeps its initialisation, unless `head` forbids that. A model
//    without a head skips the file's head.
//  - If the images of the model have another number of channels, the weights of 3 or 1 channels in
//    its first convolution are summed to one channel, or repeated to more and scaled, as in timm.
//  - A model without a class token skips it.
//  - If the file has LayerNorms and the model another normalizer, the normalizer takes their weight
//    and bias. Its other parameters, such as DTN's lambdas and positions, keep their
//    initialisation.
//  - fc_norm keeps its initialisation if the file has the norm before the pooling.
// Tensors of vision transformers may have the names of the releases of DeiT III, DINOv2, MAE and
// CLIP, of Hugging Face's transformers and of torchvision. Names of any family may have the
// prefixes of wrappers, such as "module.".
// Returns a note for each adaptation.
std::vector<std::string> load_adapted(Classifier& model, const NamedTensors& tensors,
                                      const std::string& source, const GridKeys& origin = {},
                                      const HeadOptions& head = {});

// Returns the grid keys of the config in the file's metadata, which describes the model of the
// weights. No keys if the file carries no config.
GridKeys origin_of(const TensorFile& file, const PresetRegistry& presets = preset_registry());

// 16 hexadecimal digits that depend on the names, types, shapes and values of the weights.
std::string fingerprint_of(const NamedTensors& weights);

// load_adapted() from a safetensors file and its origin_of(). The last note counts the tensors that
// needed no adaptation.
std::vector<std::string> load_weights(Classifier& model, const std::filesystem::path& path,
                                      const HeadOptions& head = {},
                                      const PresetRegistry& presets = preset_registry());
// The same from a file that is read already; `source` names it in messages.
std::vector<std::string> load_weights(Classifier& model, const TensorFile& file,
                                      const std::string& source, const HeadOptions& head = {},
                                      const PresetRegistry& presets = preset_registry());

}  // namespace dtn
