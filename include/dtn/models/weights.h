// Model weights to and from files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

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

// Like load_exact, for weights that were trained for something slightly different:
//  - position tables of another resolution are interpolated bicubically, the class token's apart;
//  - a head for another number of classes is left at its initialisation;
//  - a class token is skipped by a model that pools by the mean.
// Returns a note for each such adaptation.
std::vector<std::string> load_adapted(Classifier& model, const NamedTensors& tensors,
                                      const std::string& source);

// load_adapted from a safetensors file.
std::vector<std::string> load_weights(Classifier& model, const std::filesystem::path& path);

}  // namespace dtn
