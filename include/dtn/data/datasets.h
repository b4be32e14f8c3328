// The data sets that come with the library. See data/README.md for where to get
// them and how their folders look.
//
// All throw DataError that names the path, what is wrong with it and what to do. Labels outside
// [0, model.num_classes) are such an error, naming file, index and label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtn/config/data_config.h"
#include "dtn/config/model_config.h"
#include "dtn/data/dataset.h"
#include "dtn/data/dataset_registry.h"

namespace dtn {

// Opens data.dataset by its row of the table (dataset_registry.h), and only the split asked for, of
// data.classes alone where there are some.
// `seed` is for images that are made up.
std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const ModelConfig& model, Split split,
                                      std::uint64_t seed,
                                      const DatasetRegistry& datasets = dataset_registry());

// MNIST's format: <root>/<prefix>-images-idx3-ubyte and -labels-idx1-ubyte, gzipped (.gz) or not.
// The prefix is data.train (default "train") or data.val (default "t10k").
std::unique_ptr<Dataset> open_idx(const DataConfig& data, const ModelConfig& model, Split split);

// <root>/<split>/<class>/**, where <split> is data.train (default "train") or data.val ("val").
// Classes are the folders in byte order of their names, samples sorted by class, folder and file
// name, as torchvision's ImageFolder sorts them; names that begin with a dot are left out. When
// both splits exist their classes must be the same.
std::unique_ptr<Dataset> open_image_folder(const DataConfig& data, const ModelConfig& model,
                                           Split split);

// The names of the class folders in `folder`, in byte order; DataError when there are none.
std::vector<std::string> class_folders_of(const std::string& folder);

// <folder>/<class>/**, listed and sorted as above, where each folder's label is the position of its
// name in `classes`, of which it need not have all. DataError for a name that is none of them.
std::unique_ptr<Dataset> open_class_folders(const std::string& folder,
                                            const std::vector<std::string>& classes);

// The samples of `dataset` whose classes are among `wanted`, in their order. Labels, these and the
// new ones, are positions in `classes`: by name, or, where a data set does not name its classes,
// its own labels as they are.
std::unique_ptr<Dataset> only_classes(std::shared_ptr<const Dataset> dataset,
                                      const std::vector<std::string>& classes,
                                      std::span<const std::int64_t> wanted);

// The samples of the classes `labels` of `dataset`, in their order, with the positions in `labels`
// for new labels. DataError for a label that the data set does not have, and where it has no sample
// of these classes.
std::unique_ptr<Dataset> choose_classes(std::shared_ptr<const Dataset> dataset,
                                        std::span<const std::int64_t> labels);

// The 1000 WordNet identifiers of ILSVRC2012 in byte order, which is the order of their labels.
const std::vector<std::string>& imagenet_class_names();
// A short English name for each of them, in the same order; no two are equal.
const std::vector<std::string>& imagenet_class_words();

// The archives of ILSVRC2012 as image-net.org gives them out, read in place: the tar of a tar for
// each class, data.train below root (default "ILSVRC2012_img_train.tar"), or the flat tar of the
// validation images, data.val ("ILSVRC2012_img_val.tar"), whose labels, among the 1000 classes, come
// from the development kit, ILSVRC2012_devkit_t12.tar.gz or its folder in root. Classes, labels and order are those of
// the image folder that data/README.md makes of them. Where the images lie is found out once and
// kept in a file beside the archive, or in the user's cache folder.
std::unique_ptr<Dataset> open_imagenet(const DataConfig& data, const ModelConfig& model,
                                       Split split);

// Tar shards in WebDataset's layout, read in place: consecutive members of one name up to its first
// dot are a sample, `.jpg`, `.png` or another image, `.cls` its label in digits.
// data.train and data.val, below root, are a folder of shards, or names with braces
// ("imagenet-train-{000000..000146}.tar") or wildcards (default "*train*.tar" and "*val*.tar").
// Samples are sorted by label, folder and file name, so that a data set in shards has the order of
// its image folder. An index is kept as for `imagenet`.
std::unique_ptr<Dataset> open_webdataset(const DataConfig& data, const ModelConfig& model,
                                         Split split);

// The shards that such a name stands for, in the order of the braces. DataError when there are
// none.
std::vector<std::string> expand_shards(const std::string& pattern);

// One file made by `dtn-data pack` (see pack.h), data.train or data.val below root (default
// "<split>.packed"). It is mapped; a record is compared with its checksum the first time it is
// read. Cutting the file while it is in use is a DataError; a disk that fails later, when memory
// was short and a record must be read again, ends the process as for any mapped file.
std::unique_ptr<Dataset> open_packed(const DataConfig& data, const ModelConfig& model, Split split);

// A safetensors file, data.train or data.val below root (default "<split>.safetensors"):
// `images` [N, channels, image_size, image_size] float32, used as they are, and `labels` [N] of
// an integer type. The file is mapped, so it may be larger than memory.
std::unique_ptr<Dataset> open_tensors(const DataConfig& data, const ModelConfig& model,
                                      Split split);

// The binary version of CIFAR-10 or CIFAR-100, in root or in the folder its archive unpacks to.
std::unique_ptr<Dataset> open_cifar(const DataConfig& data, const ModelConfig& model, Split split);

// Long ListOps of the Long-Range Arena, sequences of 16 words and pads: the file data.train (default
// "basic_train.tsv") or data.val ("basic_val.tsv") in root, in its folder listops-1000, or anywhere
// by its path. `dtn-data listops` makes such files. Sequences are samples in the order of the file.
std::unique_ptr<Dataset> open_listops(const DataConfig& data, const ModelConfig& model,
                                      Split split);

// data.size images of the model's size, made up on the fly: a coarse random pattern for each class
// (the same in both splits), a random brightness and noise. Classes are balanced: label = index mod
// num_classes. Equal seeds give equal images. For models of sequences: random words, up to max_length.
std::unique_ptr<Dataset> make_synthetic(const DataConfig& data, const ModelConfig& model,
                                        Split split, std::uint64_t seed);

// An array of bytes in IDX format (http://yann.lecun.com/exdb/mnist, "the IDX file format").
struct IdxArray {
  std::vector<std::int64_t> dims;    // outermost first, each at least 1
  std::vector<std::uint8_t> values;  // product of dims
};

// From the bytes of a file that is not trusted, gzipped or not; `name` stands for it in messages.
// Memory is asked for only when the file can keep what its header promises.
IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name);

// Throws the DataError for a data set of more classes than the model has, and warns of less.
// `where` is what holds them. A model of 0 classes takes any number, here and below.
void check_class_count(std::int64_t classes, const ModelConfig& model, const std::string& where);

// Throws the DataError for a label outside [0, num_classes).
void check_labels(std::span<const std::int64_t> labels, std::int64_t num_classes,
                  const std::string& file);

}  // namespace dtn
