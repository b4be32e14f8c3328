// Backend of a program without CUDA: requests throw ConfigError with the reason. Linked in place of
// the other files of this folder.
#include "core/cuda_device.h"
#include "core/cuda_products.h"
#include "core/cuda_stream.h"
#include "core/queue.h"
#include "dist/device_transport.h"
#include "dtn/core/check.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/query_attention.h"
#include "kernels/conv/convolution.h"
#include "kernels/conv/depthwise_tokens.h"
#include "kernels/conv/pool_tokens.h"
#include "kernels/conv/soft_split.h"
#include "kernels/conv/upsample_join.h"
#include "kernels/conv/upsample_tokens.h"
#include "kernels/cuda/trace.h"
#include "kernels/detect/roi_align.h"
#include "kernels/dtn/dtn_dense.h"
#include "kernels/dtn/dtn_dense_positions.h"
#include "kernels/dtn/dtn_norm.h"
#include "kernels/dtn_sequence/dtn_sequence.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/linear.h"
#include "kernels/grouped_attention/grouped_attention.h"
#include "kernels/image/images.h"
#include "kernels/image/mix_images.h"
#include "kernels/image/sampler_step.h"
#include "kernels/loss/binary_cross_entropy.h"
#include "kernels/loss/box_loss.h"
#include "kernels/loss/contrastive.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/diffusion_loss.h"
#include "kernels/loss/dino_loss.h"
#include "kernels/loss/focal_loss.h"
#include "kernels/loss/hard_targets.h"
#include "kernels/loss/pixel_loss.h"
#include "kernels/loss/weighted_cross_entropy.h"
#include "kernels/norm/channel_moments.h"
#include "kernels/norm/channel_norm.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/power_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/norm/switchable_norm.h"
#include "kernels/norm/weight_norm.h"
#include "kernels/optimizer/adaptive_clip.h"
#include "kernels/optimizer/lamb.h"
#include "kernels/optimizer/muon.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/optimizer/parameter_clip.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/gather.h"
#include "kernels/pointwise/gelu_backward.h"
#include "kernels/pointwise/modulate.h"
#include "kernels/pointwise/padded_ids.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/timestep_features.h"
#include "kernels/primitive/copy.h"
#include "kernels/primitive/elementwise.h"
#include "kernels/primitive/reduce.h"
#include "kernels/primitive/select.h"
#include "kernels/primitive/softmax.h"
#include "kernels/sparse_attention/block_attention.h"
#include "kernels/sparse_attention/hashed_attention.h"

namespace dtn {
namespace {

constexpr const char* kReason =
    "this program was built without CUDA; configure with cmake --preset cuda, or use --device cpu";

[[noreturn]] void fail() { throw ConfigError(cat("--device cuda: ", kReason)); }

}  // namespace

std::unique_ptr<DeviceTransport> open_device_transport(int, int, const ShareBytes&) { fail(); }

namespace cuda {

std::string toolkit() { return "no CUDA"; }
std::string unavailable_reason() { return kReason; }
std::vector<int> usable_devices() { return {}; }
void select_device(int) { fail(); }
DeviceInfo device_info() { fail(); }

std::shared_ptr<std::byte> allocate(std::size_t) { fail(); }
bool is_caching() { return false; }
void set_caching(bool) {}
std::shared_ptr<std::byte> allocate_pinned(std::size_t) { fail(); }
AllocatorStats allocator_stats() { return {}; }
void reset_peak_bytes() {}
void release_cached_memory() {}
bool has_spare_memory(std::size_t) { return false; }
void set_spare_memory_limit(std::size_t) {}

void copy_to_device(void*, const void*, std::size_t) { fail(); }
void copy_to_host(void*, const void*, std::size_t) { fail(); }
void copy_on_device(void*, const void*, std::size_t) { fail(); }
void fill_with_zero(void*, std::size_t) { fail(); }
void synchronize() {}
void allow_tf32(bool) {}

std::vector<Product> products() { return {}; }
void choose_candidate(const std::string&, std::size_t) { fail(); }
void compute(const std::string&, const ProductOperands&) { fail(); }
ProductLibrary product_library() { fail(); }

TraceRange::TraceRange(const char*) {}
TraceRange::~TraceRange() {}

struct Event::State {};
Event::Event() { fail(); }
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
void Event::record() {}
void Event::record_copies() {}
void Event::wait() const {}
bool Event::reached() const { return true; }
double Event::since(const Event&) const { return 0; }
void compute_after(const Event&) {}
void copies_after(const Event&) {}
void copy_ahead(void*, const void*, std::size_t) { fail(); }

MemoryPool::MemoryPool() { fail(); }
MemoryPool::~MemoryPool() {}
MemoryPool::Scope::Scope(MemoryPool&) { fail(); }
MemoryPool::Scope::~Scope() {}

struct Graph::State {};
Graph::Graph() { fail(); }
Graph::~Graph() = default;
void Graph::capture(const std::function<void()>&) { fail(); }
std::size_t Graph::size() const { return 0; }
void Graph::launch() { fail(); }

struct Trace::State {};
Trace::Trace() { fail(); }
Trace::~Trace() {}
std::vector<TimedLaunch> Trace::launches() const { return {}; }

}  // namespace cuda

void* CudaQueue::stream() const { fail(); }
bool CudaQueue::has_warpgroup_products() const { return false; }
std::shared_ptr<std::byte> CudaQueue::take_bytes(std::size_t) const { fail(); }

#define DTN_ABSENT(Arguments) \
  void run(CudaQueue&, const Arguments&) { fail(); }
#define DTN_ABSENT_PASSES(Operation) \
  DTN_ABSENT(Operation##Forward)     \
  DTN_ABSENT(Operation##Backward)
#define DTN_ABSENT_WEIGHTED(Operation) \
  DTN_ABSENT(Operation##Forward)       \
  DTN_ABSENT(Operation##BackwardInput) \
  DTN_ABSENT(Operation##BackwardWeight)
DTN_ABSENT_WEIGHTED(Convolution)
DTN_ABSENT_WEIGHTED(DepthwiseTokens)
DTN_ABSENT_PASSES(PoolTokens)
DTN_ABSENT_PASSES(SoftSplit)
DTN_ABSENT(UpsampleAddForward)
DTN_ABSENT_PASSES(UpsampleJoin)
DTN_ABSENT_PASSES(Activation)
DTN_ABSENT_PASSES(Attention)
DTN_ABSENT_PASSES(BlockAttention)
DTN_ABSENT_PASSES(HashedAttention)
DTN_ABSENT_PASSES(GroupedAttention)
DTN_ABSENT_PASSES(QueryAttention)
DTN_ABSENT_PASSES(BinaryCrossEntropy)
DTN_ABSENT_PASSES(BoxLoss)
DTN_ABSENT_PASSES(ChannelNorm)
DTN_ABSENT(MoveRunningStatistics)
DTN_ABSENT_PASSES(ChannelMoments)
DTN_ABSENT(ShareSums)
DTN_ABSENT(PackMoments)
DTN_ABSENT(CombineMoments)
DTN_ABSENT_PASSES(Contrastive)
DTN_ABSENT_PASSES(CrossEntropy)
DTN_ABSENT_PASSES(DiffusionLoss)
DTN_ABSENT(DiffuseImages)
DTN_ABSENT_PASSES(DinoLoss)
DTN_ABSENT(DinoCenterStep)
DTN_ABSENT_PASSES(DtnNorm)
DTN_ABSENT_PASSES(DtnSequence)
DTN_ABSENT_PASSES(DtnDense)
DTN_ABSENT(DtnDensePositions)
DTN_ABSENT(DtnDensePositionsBackward)
DTN_ABSENT_PASSES(FocalLoss)
DTN_ABSENT_PASSES(PixelLoss)
DTN_ABSENT(Gemm)
DTN_ABSENT(HardTargets)
DTN_ABSENT_PASSES(LayerNorm)
DTN_ABSENT_WEIGHTED(Linear)
DTN_ABSENT_PASSES(Gelu)
DTN_ABSENT(MlpGeluBackward)
DTN_ABSENT_PASSES(Modulate)
DTN_ABSENT_PASSES(Gate)
DTN_ABSENT_PASSES(ModulateSamples)
DTN_ABSENT_PASSES(ScaleShiftRows)
DTN_ABSENT_PASSES(Neighbours)
DTN_ABSENT(PadIds)
DTN_ABSENT(LengthenSamples)
DTN_ABSENT(TimestepFeatures)
DTN_ABSENT(AdamWStep)
DTN_ABSENT(SgdStep)
DTN_ABSENT(LionStep)
DTN_ABSENT(MuonMomentum)
DTN_ABSENT(DivideByNorm)
DTN_ABSENT(AddDiagonal)
DTN_ABSENT(MuonStep)
DTN_ABSENT(LambStep)
DTN_ABSENT(AdaptiveClip)
DTN_ABSENT(ParameterClip)
DTN_ABSENT(EmaStep)
DTN_ABSENT(CommitBuffers)
DTN_ABSENT(SumSquares)
DTN_ABSENT(Cast)
DTN_ABSENT(Add)
DTN_ABSENT(ScaleRows)
DTN_ABSENT(ElementDropout)
DTN_ABSENT(DropPathScales)
DTN_ABSENT(Patchify)
DTN_ABSENT(SumRows)
DTN_ABSENT(AddToRows)
DTN_ABSENT(CopyRows)
DTN_ABSENT(MeanRows)
DTN_ABSENT(SpreadMean)
DTN_ABSENT(Mean)
DTN_ABSENT(Sigmoid)
DTN_ABSENT(Elementwise)
DTN_ABSENT(StridedCopy)
DTN_ABSENT(Reduce)
DTN_ABSENT_PASSES(Softmax)
DTN_ABSENT_PASSES(Select)
DTN_ABSENT(NormalizeImages)
DTN_ABSENT(EraseImages)
DTN_ABSENT(PadImages)
DTN_ABSENT(BlendPairs)
DTN_ABSENT(SwapBoxes)
DTN_ABSENT(PairLabels)
DTN_ABSENT(SamplerStep)
DTN_ABSENT(NormalNoise)
DTN_ABSENT(PrepareUpdate)
DTN_ABSENT(PrepareLateUpdate)
DTN_ABSENT(PowerNormSquares)
DTN_ABSENT_PASSES(PowerNorm)
DTN_ABSENT(PowerNormFeedback)
DTN_ABSENT_PASSES(RmsNorm)
DTN_ABSENT_PASSES(RoiAlign)
DTN_ABSENT(SwitchableNormStatistics)
DTN_ABSENT_PASSES(SwitchableNorm)
DTN_ABSENT(SwitchableNormBackwardSums)
DTN_ABSENT(WeightNormScale)
DTN_ABSENT(WeightNormBackward)
DTN_ABSENT_PASSES(WeightedCrossEntropy)
#undef DTN_ABSENT_WEIGHTED
#undef DTN_ABSENT_PASSES
#undef DTN_ABSENT

}  // namespace dtn
