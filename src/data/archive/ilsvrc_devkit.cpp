#include "data/archive/ilsvrc_devkit.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "dtn/core/check.h"
#include "io/file.h"
#include "io/gzip.h"
#include "io/tar.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "ILSVRC2012_devkit_t12";
constexpr const char* kTruth = "data/ILSVRC2012_validation_ground_truth.txt";
constexpr std::int64_t kMaxTruthBytes = 64 << 20;     // the original has 200 KB
constexpr std::int64_t kMaxArchiveBytes = 256 << 20;  // inflated

// The kit numbers the classes in its own order. Entry i is the label of the class with
// ILSVRC2012_ID i + 1: its position among the 1000 classes in the order of their WordNet ids. (The
// kit's data/meta.mat gives the same order.)
constexpr std::array<std::int16_t, 1000> kLabels = {
    278, 212, 250, 193, 217, 147, 387, 285, 350, 283, 286, 353, 334, 150, 249, 362, 246, 166, 218,
    172, 177, 148, 357, 386, 178, 202, 194, 271, 229, 290, 175, 163, 191, 276, 299, 197, 380, 364,
    339, 359, 251, 165, 157, 361, 179, 268, 233, 356, 266, 264, 225, 349, 335, 375, 282, 204, 352,
    272, 187, 256, 294, 277, 174, 234, 351, 176, 280, 223, 154, 262, 203, 190, 370, 298, 384, 292,
    170, 342, 241, 340, 348, 245, 365, 253, 288, 239, 153, 185, 158, 211, 192, 382, 224, 216, 284,
    367, 228, 160, 152, 376, 338, 270, 296, 366, 169, 265, 183, 345, 199, 244, 381, 236, 195, 238,
    240, 155, 221, 259, 181, 343, 354, 369, 196, 231, 207, 184, 252, 232, 331, 242, 201, 162, 255,
    210, 371, 274, 372, 373, 209, 243, 222, 378, 254, 206, 186, 205, 341, 261, 248, 215, 267, 189,
    289, 214, 273, 198, 333, 200, 279, 188, 161, 346, 295, 332, 347, 379, 344, 260, 388, 180, 230,
    257, 151, 281, 377, 208, 247, 363, 258, 164, 168, 358, 336, 227, 368, 355, 237, 330, 171, 291,
    219, 213, 149, 385, 337, 220, 263, 156, 383, 159, 287, 275, 374, 173, 269, 293, 167, 226, 297,
    182, 235, 360, 105, 101, 102, 104, 103, 106, 763, 879, 780, 805, 401, 310, 327, 117, 579, 620,
    949, 404, 895, 405, 417, 812, 554, 576, 814, 625, 472, 914, 484, 871, 510, 628, 724, 403, 833,
    913, 586, 847, 657, 450, 537, 444, 671, 565, 705, 428, 791, 670, 561, 547, 820, 408, 407, 436,
    468, 511, 609, 627, 656, 661, 751, 817, 573, 575, 665, 803, 555, 569, 717, 864, 867, 675, 734,
    757, 829, 802, 866, 660, 870, 880, 603, 612, 690, 431, 516, 520, 564, 453, 495, 648, 493, 846,
    553, 703, 423, 857, 559, 765, 831, 861, 526, 736, 532, 548, 894, 948, 950, 951, 952, 953, 954,
    955, 956, 957, 988, 989, 998, 984, 987, 990, 687, 881, 494, 541, 577, 641, 642, 822, 420, 486,
    889, 594, 402, 546, 513, 566, 875, 593, 684, 699, 432, 683, 776, 558, 985, 986, 972, 979, 970,
    980, 976, 977, 973, 975, 978, 974, 596, 499, 623, 726, 740, 621, 587, 512, 473, 731, 784, 792,
    730, 491, 7,   8,   9,   10,  11,  12,  13,  14,  15,  16,  17,  18,  19,  20,  21,  22,  23,
    24,  80,  81,  82,  83,  84,  85,  86,  87,  88,  89,  90,  91,  92,  93,  94,  95,  96,  97,
    98,  99,  100, 127, 128, 129, 130, 132, 131, 133, 134, 135, 137, 138, 139, 140, 141, 142, 143,
    136, 144, 145, 146, 2,   3,   4,   5,   6,   389, 391, 0,   1,   390, 392, 393, 396, 397, 394,
    395, 33,  34,  35,  36,  37,  38,  39,  40,  41,  42,  43,  44,  45,  46,  47,  48,  51,  49,
    50,  52,  53,  54,  55,  56,  57,  58,  59,  60,  61,  62,  63,  64,  65,  66,  67,  68,  25,
    26,  27,  28,  29,  30,  31,  32,  902, 908, 696, 589, 691, 801, 632, 650, 782, 673, 545, 686,
    828, 811, 827, 583, 426, 769, 685, 778, 409, 530, 892, 604, 835, 704, 826, 531, 823, 845, 635,
    447, 745, 837, 633, 755, 456, 471, 413, 764, 744, 508, 878, 517, 626, 398, 480, 798, 527, 590,
    681, 916, 595, 856, 742, 800, 886, 786, 613, 844, 600, 479, 694, 723, 739, 571, 476, 843, 758,
    753, 746, 592, 836, 714, 475, 807, 761, 535, 464, 584, 616, 507, 695, 677, 772, 783, 676, 785,
    795, 470, 607, 818, 862, 678, 718, 872, 645, 674, 815, 69,  70,  71,  72,  73,  74,  75,  76,
    77,  78,  79,  126, 118, 119, 120, 121, 122, 123, 124, 125, 300, 301, 302, 303, 304, 305, 306,
    307, 308, 309, 311, 312, 313, 314, 315, 316, 317, 318, 319, 320, 321, 322, 323, 324, 325, 326,
    107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 328, 329, 606, 550, 651, 544, 766, 859, 891,
    882, 534, 760, 897, 521, 567, 909, 469, 505, 849, 813, 406, 873, 706, 821, 839, 888, 425, 580,
    698, 663, 624, 410, 449, 497, 668, 832, 727, 762, 498, 598, 634, 506, 682, 863, 483, 743, 582,
    415, 424, 454, 467, 509, 788, 860, 865, 562, 500, 915, 536, 458, 649, 421, 460, 525, 489, 716,
    912, 825, 581, 799, 877, 672, 781, 599, 729, 708, 437, 935, 945, 936, 937, 938, 939, 940, 941,
    942, 943, 944, 946, 947, 794, 608, 478, 591, 774, 412, 771, 923, 679, 522, 568, 855, 697, 770,
    503, 492, 640, 662, 876, 868, 416, 931, 741, 614, 926, 901, 615, 921, 816, 796, 440, 518, 455,
    858, 643, 638, 712, 560, 433, 850, 597, 737, 713, 887, 918, 574, 927, 834, 900, 552, 501, 966,
    542, 787, 496, 601, 922, 819, 452, 962, 429, 551, 777, 838, 441, 996, 924, 619, 911, 958, 457,
    636, 899, 463, 533, 809, 969, 666, 869, 693, 488, 840, 659, 964, 907, 789, 465, 540, 446, 474,
    841, 738, 448, 588, 722, 709, 707, 925, 411, 747, 414, 982, 439, 710, 462, 669, 399, 667, 735,
    523, 732, 810, 968, 752, 920, 749, 754, 961, 524, 652, 629, 793, 664, 688, 658, 459, 930, 883,
    653, 768, 700, 995, 549, 655, 515, 874, 711, 435, 934, 991, 466, 721, 999, 481, 477, 618, 994,
    631, 585, 400, 538, 519, 903, 965, 720, 490, 854, 905, 427, 896, 418, 430, 434, 514, 578, 904,
    992, 487, 680, 422, 637, 617, 556, 654, 692, 646, 733, 602, 808, 715, 756, 893, 482, 917, 719,
    919, 442, 563, 906, 890, 689, 775, 748, 451, 443, 701, 797, 851, 842, 647, 967, 963, 461, 790,
    910, 773, 960, 981, 572, 993, 830, 898, 528, 804, 610, 779, 611, 728, 759, 529, 419, 929, 885,
    852, 570, 539, 630, 928, 932, 750, 639, 848, 502, 605, 997, 983, 725, 644, 445, 806, 485, 622,
    853, 884, 438, 971, 933, 702, 557, 504, 767, 824, 959, 543};

// Reads the file from the kit's archive, where it is found by the end of its name.
std::vector<std::int32_t> read_archive(const std::string& path) {
  const std::vector<std::byte> bytes = read_gzip_file(path, kMaxArchiveBytes);
  const MemorySource source(bytes, path);
  TarReader reader(source);
  for (TarMember member; reader.next(member);) {
    if (!member.name.ends_with(kTruth)) continue;
    const auto content = std::span(bytes).subspan(static_cast<std::size_t>(member.offset),
                                                  static_cast<std::size_t>(member.size));
    return parse_ilsvrc_labels(content, cat(path, ": ", kTruth));
  }
  throw DataError(cat(path, ": has no ", kTruth, "; is it the development kit of tasks 1 and 2?"));
}

}  // namespace

std::vector<std::int32_t> parse_ilsvrc_labels(std::span<const std::byte> truth,
                                              const std::string& name) {
  std::vector<std::int32_t> labels;
  std::string_view rest(reinterpret_cast<const char*>(truth.data()), truth.size());
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    std::size_t id = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), id);
    if (error != std::errc() || stop != line.data() + line.size() || id < 1 || id > kLabels.size())
      throw DataError(cat(name, ": line ", labels.size() + 1, " is not a class number from 1 to ",
                          kLabels.size()));
    labels.push_back(kLabels[id - 1]);
  }
  return labels;
}

std::vector<std::int32_t> read_ilsvrc_labels(const fs::path& root) {
  const fs::path folder = root / kFolder;
  const fs::path archive = root / cat(kFolder, ".tar.gz");
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) {
    const std::string file = (folder / kTruth).string();
    return parse_ilsvrc_labels(read_file(file, kMaxTruthBytes), file);
  }
  if (fs::exists(archive, ignored)) return read_archive(archive.string());
  throw DataError(cat("no such file: ", archive.string(), " (or the folder ", folder.string(),
                      "); it holds the classes of the validation images. Download the development "
                      "kit of tasks 1 and 2 from image-net.org (see data/README.md)"));
}

}  // namespace dtn
