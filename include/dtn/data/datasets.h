// The data sets that come with the library. See data/README.md for their sources and the layout of
// their folders.
//
// All functions throw DataError that names the path, the problem and a remedy. This includes labels
// outside [0, model.num_classes); the error names file, index and label.
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

// Opens one split of data.dataset by its registry entry (dataset_registry.h), restricted to
// data.classes if that is set. `seed` is for synthetic images. Throws DataError if the images have
// no labels.
std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const ModelConfig& model, Split split,
                                      std::uint64_t seed,
                                      const DatasetRegistry& datasets = dataset_registry());

// The same for images that may have no labels, by the entry's open_unlabelled.
std::unique_ptr<Dataset> open_unlabelled(const DataConfig& data, const ModelConfig& model,
                                         Split split, std::uint64_t seed,
                                         const DatasetRegistry& datasets = dataset_registry());

// The same for a task that makes several views of each image and needs no labels, by the entry's
// open_for_views. The number of classes is that of the data set; model.num_classes does not count.
std::unique_ptr<Dataset> open_for_views(const DataConfig& data, const ModelConfig& model,
                                        Split split, std::uint64_t seed,
                                        const DatasetRegistry& datasets = dataset_registry());

// The same for samples with any number of classes, by the entry's open_multilabel. Throws
// ConfigError if the data set cannot have them. data.classes and data.label_sets are not read.
std::unique_ptr<Dataset> open_multilabel(const DataConfig& data, const ModelConfig& model,
                                         Split split, std::uint64_t seed,
                                         const DatasetRegistry& datasets = dataset_registry());

// MNIST's format: <root>/<prefix>-images-idx3-ubyte and -labels-idx1-ubyte, gzipped (.gz) or not.
// The prefix is data.train (default "train") or data.val (default "t10k").
std::unique_ptr<Dataset> open_idx(const DataConfig& data, const ModelConfig& model, Split split);

// <root>/<split>/<class>/**, where <split> is data.train (default "train") or data.val ("val").
// Classes are the folders in data.class_order, by default the byte order of their names. Samples
// are sorted by class, folder and file name, as in torchvision's ImageFolder. Names that begin with
// a dot are ignored. If both splits exist, their classes must be the same.
//
// With data.labels, the images that a table lists, with its labels. With data.split, both splits
// are all images of the training folder, and open_dataset() takes the part of the split.
std::unique_ptr<Dataset> open_image_folder(const DataConfig& data, const ModelConfig& model,
                                           Split split);

// The images that the table data.labels lists, with any number of labels each: separated by
// semicolons, in several lines, or in a column of 0 and 1 for each class.
std::unique_ptr<Dataset> open_multilabel_images(const DataConfig& data, const ModelConfig& model,
                                                Split split);

// open_image_folder() or, if there is no data.labels and the folder of the split has no class
// folders, all images directly in it: without labels, sorted by file name.
std::unique_ptr<Dataset> open_unlabelled_folder(const DataConfig& data, const ModelConfig& model,
                                                Split split);

// The names of the class folders in `folder`, in byte order. Throws DataError if there are none.
std::vector<std::string> class_folders_of(const std::string& folder);

// <folder>/<class>/**, listed and sorted as above. A folder's label is the position of its name in
// `classes`; some classes may have no folder. Throws DataError for a folder not in `classes`.
std::unique_ptr<Dataset> open_class_folders(const std::string& folder,
                                            const std::vector<std::string>& classes);

// The samples of `dataset` whose classes are in `wanted`, in their order. `wanted` and the new
// labels are positions in `classes`, matched by name. If the data set does not name its classes,
// its labels count as positions.
std::unique_ptr<Dataset> only_classes(std::shared_ptr<const Dataset> dataset,
                                      const std::vector<std::string>& classes,
                                      std::span<const std::int64_t> wanted);

// The samples of `dataset` with a label in `labels`, in their order. The new label is the position
// in `labels`. Throws DataError if the data set lacks one of the labels, or has no sample of these
// classes, and ConfigError if it has given views.
std::unique_ptr<Dataset> choose_classes(std::shared_ptr<const Dataset> dataset,
                                        std::span<const std::int64_t> labels);

// The 1000 WordNet identifiers of ILSVRC2012 in byte order, which is the order of their labels.
const std::vector<std::string>& imagenet_class_names();
// A short English name for each ILSVRC2012 class, in the same order; all are different.
const std::vector<std::string>& imagenet_class_words();

// The archives of ILSVRC2012 as downloaded from image-net.org, read in place. Training images:
// data.train below root (default "ILSVRC2012_img_train.tar"), a tar with one tar per class.
// Validation images: data.val (default "ILSVRC2012_img_val.tar"), a flat tar. Its labels, among the
// 1000 classes, come from the development kit, ILSVRC2012_devkit_t12.tar.gz or its folder in root.
// Classes, labels and order are those of the image folder that data/README.md describes. The
// positions of the images are found once and kept in a file beside the archive, or in the user's
// cache folder.
std::unique_ptr<Dataset> open_imagenet(const DataConfig& data, const ModelConfig& model,
                                       Split split);

// Tar shards in WebDataset's layout, read in place. Consecutive members with the same name up to
// the first dot form a sample: `.jpg`, `.png` or another image, and `.cls`, its label in digits,
// or `.json` with `label`, a number or the name of a class.
// data.train and data.val, below root, are a folder of shards, or names with braces
// ("imagenet-train-{000000..000146}.tar") or wildcards (default "*train*.tar" and "*val*.tar").
// Samples are sorted by label, folder and file name, so a data set in shards has the order of its
// image folder. An index is kept as for `imagenet`.
std::unique_ptr<Dataset> open_webdataset(const DataConfig& data, const ModelConfig& model,
                                         Split split);

// The same with any number of labels for each image: the list `label` or `labels` of a `.json`.
std::unique_ptr<Dataset> open_multilabel_webdataset(const DataConfig& data,
                                                    const ModelConfig& model, Split split);
// The one or the other, as the shards are.
std::unique_ptr<Dataset> open_any_webdataset(const DataConfig& data, const ModelConfig& model,
                                             Split split);

// The shards that a name with braces or wildcards stands for, in the order of the braces. Throws
// DataError if there are none.
std::vector<std::string> expand_shards(const std::string& pattern);

// One file made by `dtn-data pack` (see pack.h): data.train or data.val below root (default
// "<split>.packed"). The file is memory-mapped. The first read of a record verifies its checksum.
// Truncating the file while it is in use is a DataError. If memory is short, a record may be read
// again later; a disk failure then ends the process, as with any mapped file.
std::unique_ptr<Dataset> open_packed(const DataConfig& data, const ModelConfig& model, Split split);

// The same for a packed file whose images have any number of labels. Each throws DataError for a
// file of the other kind.
std::unique_ptr<Dataset> open_multilabel_packed(const DataConfig& data, const ModelConfig& model,
                                                Split split);
// The one or the other, as the file is.
std::unique_ptr<Dataset> open_any_packed(const DataConfig& data, const ModelConfig& model,
                                         Split split);

// A safetensors file: data.train or data.val below root (default "<split>.safetensors"). It holds
// `images` [N, channels, image_size, image_size] float32, used unchanged, and `labels` [N] of an
// integer type. The file is memory-mapped, so it may be larger than memory. For diffusion models it
// may also hold `timesteps` [N], `noise` like `images` and `drop` [N], which become
// Dataset::ready_fields() as int64, float32 and int64. For a model with a condition, `style` [N]
// integers or `vector` [N, K] float32 become such fields, too.
std::unique_ptr<Dataset> open_tensors(const DataConfig& data, const ModelConfig& model,
                                      Split split);

// A safetensors file as above, with `labels` [N, K] uint8, int64 or float32: 1 for the classes that
// an image has, 0 for the others.
std::unique_ptr<Dataset> open_multilabel_tensors(const DataConfig& data, const ModelConfig& model,
                                                 Split split);

// A safetensors file as above, with the views of images in place of `images`: `global` [N, 2,
// channels, S, S] and `local` [N, L, channels, s, s], or `views` [N, V, channels, S, S], all
// float32. They become Dataset::ready_fields(). Without `labels`, the classes are unknown.
std::unique_ptr<Dataset> open_tensor_views(const DataConfig& data, const ModelConfig& model,
                                           Split split);

// False if the config has no validation split, so that a run makes no evaluation: `tensors` without
// data.val and without the usual file in data.root.
bool has_validation(const DataConfig& data);

// The binary version of CIFAR-10 or CIFAR-100, in root or in the folder unpacked from its archive.
std::unique_ptr<Dataset> open_cifar(const DataConfig& data, const ModelConfig& model, Split split);

// Long ListOps of the Long-Range Arena, sequences of 16 words and pads. The file is data.train
// (default "basic_train.tsv") or data.val ("basic_val.tsv"): in root, in its folder listops-1000,
// or given by its path. `dtn-data listops` makes such files. Samples are in the order of the file.
std::unique_ptr<Dataset> open_listops(const DataConfig& data, const ModelConfig& model,
                                      Split split);

// COCO's layout, for detectors: images in <root>/<split> and their truths in
// <root>/annotations/instances_<split>.json, where <split> is data.train (default "train2017") or
// data.val ("val2017"). Samples have boxes and masks, but no label.
std::unique_ptr<Dataset> open_coco(const DataConfig& data, const ModelConfig& model, Split split);

// YOLO's layout, for detectors: images in <root>/images/<split> and their truths in
// <root>/labels/<split>, where <split> is data.train (default "train") or data.val ("val").
std::unique_ptr<Dataset> open_yolo(const DataConfig& data, const ModelConfig& model, Split split);

// data.size synthetic images of the model's size, generated when they are loaded: a coarse random
// pattern for each class (the same in both splits), a random brightness and noise. Classes are
// balanced: label = index mod num_classes. Equal seeds give equal images. For sequence models:
// random words, up to max_length.
std::unique_ptr<Dataset> make_synthetic(const DataConfig& data, const ModelConfig& model,
                                        Split split, std::uint64_t seed);

// An array of bytes in IDX format (http://yann.lecun.com/exdb/mnist, "the IDX file format").
struct IdxArray {
  std::vector<std::int64_t> dims;    // outermost first, each at least 1
  std::vector<std::uint8_t> values;  // product of dims
};

// Parses an untrusted file, gzipped or not. `name` names it in messages. Memory is allocated only
// if the file is large enough for the sizes in its header.
IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name);

// Throws DataError if a data set has more classes than the model, and warns if it has fewer.
// `where` names their owner. A model of 0 classes accepts any number, here and below.
void check_class_count(std::int64_t classes, const ModelConfig& model, const std::string& where);

// Throws DataError for a label outside [0, num_classes).
void check_labels(std::span<const std::int64_t> labels, std::int64_t num_classes,
                  const std::string& file);

}  // namespace dtn
