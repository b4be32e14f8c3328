// Backward pass of DTN on sequences on a CUDA device; see dtn_sequence.h for the formulas and
// dtn_sequence_cuda.cuh for the division of work.
//
// There are two passes over the windows. In the first, a warp recomputes the moments of its 8
// tokens. From these, dy and the statistics it computes all that belongs to its tokens: sums for
// the parameter gradients, dm1 and dm2 divided by the sums of the tokens' weights, and the part of
// dx that needs no other token. The gradient of P is never stored. Let E be the mean under the
// weights of row i, and s = j - (E j rounded to an integer):
//    sum over j of P[i, j] (s - E s) dP[i, j] = sum over c of dm1[i, c] (E(s x) - E s m1[i, c])
//                                                           + dm2[i, c] (E(s x^2) - E s m2[i, c])
// The formula for s^2 is similar. The first pass adds up these means too: 6 sums instead of 2. In
// the second pass a warp reads the tokens whose windows contain its 8 tokens, for P^T dm1 and
// P^T dm2. Each block writes one number per parameter gradient. These are added in an order that
// depends only on the shape.
//
// Memory traffic: x and dy about twice, and two float32 planes written and read, 16 bytes per
// element. Arithmetic: 8 multiply-adds for each pair of a token and a token that it reads. With 13
// taps that is 160 per element, including the ends of windows. It takes about as long as the memory
// traffic in float32, and longer for wider windows.
#include <type_traits>

#include "kernels/dtn_sequence/dtn_sequence_cuda.cuh"

namespace dtn {
namespace line {
namespace {

// Results of the blocks for the last kernels. Partial sums have one row for each tile of each
// sample; sums of heads have one for each tile and slice.
struct Partials {
  float *weight, *bias;                          // [B tiles, C]
  float *lambda_mean, *lambda_var, *pos_weight;  // [B tiles parts, H], and [.., H, 3] or null
  // The next four are null without dx.
  float* token_sums;  // [2, B, H parts, T]
  float* unfinished;  // laid out like dx
  float *dm1, *dm2;   // [B, T, C]
  float* dm_sums;     // [2, B tiles, C], for a_d = 0
};

struct BackwardArguments {
  Line line;
  Means means;
  const float *bases, *token_mean, *token_var, *lambda_mean, *lambda_var, *weight;
  const void* dy;
  const float* residual;  // dx_add if it is added to the unfinished dx, else null
  Partials partials;

  __device__ __forceinline__ std::int64_t tile_row(const Slice& s, int tile) const {
    return s.sample * line.tiles + tile;
  }
};

// Sums over the tokens of a warp. lambda_mean lacks a factor -1, lambda_var a factor -1/2.
struct TileSums {
  float weight = 0, bias = 0, dm1 = 0, dm2 = 0;                         // of the lane's channel
  float lambda_mean = 0, lambda_var = 0, by_offset = 0, by_square = 0;  // the lane's share
};
constexpr int kChannelSums = 4, kHeadSums = 4;

template <int kMoments>
struct BackwardRoom {
  WarpRoom<kMoments> walk[kWarps];
  float channels[kChannelSums][kWarps][kWidth];
  float heads[kHeadSums][kWarps];
};

// Sets the moments of all rows to the moments of the sample, for kMean.
template <int kMoments>
__device__ __forceinline__ void take_means(const BackwardArguments& a, const Slice& s,
                                           RowSums<kMoments>& sums) {
#pragma unroll
  for (int k = 0; k < kMoments; ++k) {
    const float first = a.means.sum(a.line, s, kMoments, 0, k);
    const float second = a.means.sum(a.line, s, kMoments, 1, k);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums.first[k][r] = first;
      sums.second[k][r] = second;
    }
  }
  const int k = s.lane / kRows;
  sums.weight = k == 0 || k >= kMoments ? 1.0f : a.means.share(a.line, s, 1 + k);
}

// Last step of the first pass: the gradients of each token.
template <class T, bool kOfficial, int kMoments>
__device__ __forceinline__ void token_gradients(const BackwardArguments& a, const Slice& s,
                                                int first, const Values<T, kOfficial>& values,
                                                const RowSums<kMoments>& sums,
                                                const float (&ahead)[kRows], TileSums& tile) {
  const Line& line = a.line;
  const Partials& out = a.partials;
  const float mean_share = a.lambda_mean[s.head], var_share = a.lambda_var[s.head];
  const float dm2_share = -0.5f * (1 - var_share), weight = a.weight[s.channel];
  const float offset = a.bases[s.sample] - values.pivot;
  const std::int64_t step = line.sizes.channels, tokens = s.sample * line.sizes.tokens;
  const T* dy = static_cast<const T*>(a.dy) + s.start(line);
  const std::int64_t parts = std::int64_t{line.sizes.heads} * line.parts;
  const std::int64_t by_mean =
      (s.sample * parts + std::int64_t{s.head} * line.parts + s.part) * line.sizes.tokens;
  const std::int64_t by_var = by_mean + line.sizes.batch * parts * line.sizes.tokens;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int i = first + r;
    if (i >= s.tokens) break;
    const float scale = 1 / __shfl_sync(cuda::kWholeWarp, sums.weight, r);
    const float g = s.active ? cuda::to_float(dy[i * step]) : 0.0f;
    const float var = a.token_var[tokens + i];
    const float m = sums.first[0][r] * scale, square = sums.second[0][r] * scale;
    const float raw = square - m * m;
    const bool clamped = !kOfficial && raw < 0;
    const float v = clamped ? 0 : raw;
    const float from_token = a.token_mean[tokens + i] + offset - m;
    const float rstd = rsqrtf((1 - var_share) * v + (var_share * var + line.sizes.eps));
    const float xhat = (values(i) - (m + mean_share * from_token)) * rstd;
    const float direct = g * weight * rstd;  // -dmu
    const float q = direct * xhat * rstd;    // -2 dvar
    const float dm2 = clamped ? 0 : dm2_share * q;
    const float dm1 = (mean_share - 1) * direct - dm2 * (m + m);
    tile.weight += g * xhat;
    tile.bias += g;
    tile.dm1 += dm1;
    tile.dm2 += dm2;
    tile.lambda_mean += direct * from_token;
    tile.lambda_var += q * (var - v);
    if constexpr (kMoments > 1) {
      auto centred = [&](int k) {
        const float mean = __shfl_sync(cuda::kWholeWarp, sums.weight, k * kRows + r) * scale;
        return dm1 * (sums.first[k][r] * scale - mean * m) +
               dm2 * (sums.second[k][r] * scale - mean * square);
      };
      const float by_offset = centred(1);
      tile.by_offset += by_offset;
      tile.by_square += centred(2) + 2 * ahead[r] * by_offset;
    }
    if (!out.unfinished) continue;
    const float direct_sum = cuda::warp_sum(direct), q_sum = cuda::warp_sum(q);
    if (s.lane == 0) {
      out.token_sums[by_mean + i] = -mean_share * direct_sum;
      out.token_sums[by_var + i] = -0.5f * var_share * q_sum;
    }
    if (!s.active) continue;
    const std::int64_t at = s.start(line) + i * step, dense = s.dense_start(line) + i * step;
    out.unfinished[at] = direct + (a.residual ? a.residual[at] : 0.0f);
    out.dm1[dense] = dm1 * scale;
    out.dm2[dense] = dm2 * scale;
  }
}

// Writes the sums of a block. They add the sums of its warps in order.
template <int kMoments>
__device__ __forceinline__ void add_up(const BackwardArguments& a, const Slice& s, int tile,
                                       const TileSums& mine, BackwardRoom<kMoments>& room) {
  const Partials& out = a.partials;
  const float of_channel[kChannelSums] = {mine.weight, mine.bias, mine.dm1, mine.dm2};
  const float of_head[kHeadSums] = {-mine.lambda_mean, -0.5f * mine.lambda_var,
                                    a.line.direction * mine.by_offset, mine.by_square};
#pragma unroll
  for (int k = 0; k < kChannelSums; ++k) room.channels[k][s.warp][s.lane] = of_channel[k];
#pragma unroll
  for (int k = 0; k < kHeadSums; ++k) {
    const float sum = cuda::warp_sum(of_head[k]);
    if (s.lane == 0) room.heads[k][s.warp] = sum;
  }
  __syncthreads();
  if (s.warp < kChannelSums) {  // one warp per sum
    float sum = 0;
    for (int i = 0; i < kWarps; ++i) sum += room.channels[s.warp][i][s.lane];
    const std::int64_t rows = a.line.sizes.batch * a.line.tiles, row = a.tile_row(s, tile);
    float* to = s.warp == 0 ? out.weight : s.warp == 1 ? out.bias : out.dm_sums;
    if (s.active && to) {
      to[(row + (s.warp == 3 ? rows : 0)) * a.line.sizes.channels + s.channel] = sum;
    }
  }
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= kHeadSums) return;
  float sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += room.heads[thread][i];
  const std::int64_t to =
      (a.tile_row(s, tile) * a.line.parts + s.part) * a.line.sizes.heads + s.head;
  if (thread == 0) out.lambda_mean[to] = sum;
  if (thread == 1) out.lambda_var[to] = sum;
  if (thread >= 2 && out.pos_weight) {  // columns a_x and a_d; the column a_y gets 0
    out.pos_weight[3 * to + 2 * (thread - 2)] = sum;
    if (thread == 2) out.pos_weight[3 * to + 1] = 0;
  }
}

// The float64 quotients of the official variant need too many registers for two blocks per
// multiprocessor.
template <class T, bool kOfficial, int kMoments>
__global__ void __launch_bounds__(kThreads, kOfficial ? 1 : 2)
    dtn_sequence_rows_kernel(BackwardArguments a) {
  DTN_SHARED(BackwardRoom<kMoments>, room);
  const Slice s(a.line, blockIdx.x / a.line.tiles);
  const int tile = static_cast<int>(blockIdx.x % a.line.tiles);
  const int first = tile * kTile + s.warp * kRows;
  TileSums sums;
  if (first < s.tokens) {
    const Window w(a.line, s.head);
    const Values<T, kOfficial> values(a.line, s, a.line.pivot[s.of_channel(a.line)]);
    RowSums<kMoments> moments;
    WarpRoom<kMoments>& mine = room->walk[s.warp];
    if (w.kind == Kind::kMean) {
      take_means(a, s, moments);
    } else {
      add_moments(w, first, s.tokens, values, mine, moments);
    }
    float ahead[kRows];  // j - i for which s = 0
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto i = static_cast<float>(first + r);
      ahead[r] = w.kind == Kind::kMean
                     ? a.means.share(a.line, s, 1) - i
                     : static_cast<float>(mine.rows[r].centre - (first + r)) + mine.means[r];
    }
    token_gradients<T, kOfficial>(a, s, first, values, moments, ahead, sums);
  }
  add_up(a, s, tile, sums, *room);
}

// P^T dm1 and P^T dm2 of tokens [first, first + kRows).
struct KeySums {
  float first[kRows] = {}, second[kRows] = {};
};

__device__ __forceinline__ void add_those_who_see(const BackwardArguments& a, const Slice& s,
                                                  const Window& w, int first, WarpRoom<1>& room,
                                                  KeySums& sums) {
  const std::int64_t step = a.line.sizes.channels;
  const float *dm1 = a.partials.dm1 + s.dense_start(a.line),
              *dm2 = a.partials.dm2 + s.dense_start(a.line);
  const Places seen = those_who_see(w, first, s.tokens);
#pragma unroll 1
  for (int begin = 0; begin < seen.count; begin += kSeen) {
    const int count = seen.count_from(begin);
    if (s.lane < count) {
      const Row row(w, seen.at(begin + s.lane), s.tokens);
#pragma unroll 1
      for (int from = 0; from < kRows; from += 4) {
        float made[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int j = first + from + r;
          made[r] = j < s.tokens ? row.weight(w, j) : 0.0f;
        }
        store_four(&room.weights[0][s.lane][from], made);
      }
    }
    __syncwarp();
    KeySums part;  // short partial sums lose less to rounding
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const std::int64_t from = seen.at(begin + i) * step;
      const float left1 = dm1[from], left2 = dm2[from];
      float weight[kRows];
      load_rows(room.weights[0][i], weight);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        part.first[r] += weight[r] * left1;
        part.second[r] += weight[r] * left2;
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sums.first[r] += part.first[r];
      sums.second[r] += part.second[r];
    }
    __syncwarp();
  }
}

// The same for kMean.
__device__ __forceinline__ void add_all(const BackwardArguments& a, const Slice& s, const Window& w,
                                        int first, KeySums& sums) {
  const std::int64_t channels = a.line.sizes.channels;
  const float* from = a.partials.dm_sums + a.tile_row(s, 0) * channels + s.channel;
  const float* other = from + a.line.sizes.batch * a.line.tiles * channels;
  float first_sum = 0, second_sum = 0;
  for (int tile = 0; tile * kTile < s.tokens; ++tile) {
    first_sum += from[tile * channels];
    second_sum += other[tile * channels];
  }
  const float scale = a.means.share(a.line, s, 0);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float share = mean_weight(w, std::min(first + r, s.tokens - 1), s.tokens) * scale;
    sums.first[r] = share * first_sum;
    sums.second[r] = share * second_sum;
  }
}

// Adds the gradient of x through the moments. The moments are those of x minus the pivot, so the
// pivot needs no term.
template <class T, bool kOfficial>
__global__ void __launch_bounds__(kThreads, 2) dtn_sequence_keys_kernel(BackwardArguments a) {
  DTN_SHARED(WarpRoom<1>, rooms);
  const Slice s(a.line, blockIdx.x / a.line.tiles);
  const int first = static_cast<int>(blockIdx.x % a.line.tiles) * kTile + s.warp * kRows;
  if (first >= s.tokens) return;
  const Window w(a.line, s.head);
  const Values<T, kOfficial> values(a.line, s, a.line.pivot[s.of_channel(a.line)]);
  KeySums sums;
  if (w.kind == Kind::kMean) {
    add_all(a, s, w, first, sums);
  } else {
    add_those_who_see(a, s, w, first, rooms[s.warp], sums);
  }
  if (!s.active) return;
  float* dx = a.partials.unfinished + s.start(a.line);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int t = first + r;
    if (t >= s.tokens) break;
    dx[t * a.line.sizes.channels] += sums.first[r] + 2 * values(t) * sums.second[r];
  }
}

// Memory of all partial sums.
struct PartialsMemory {
  DeviceScratch<float> sums, planes, unfinished;
  Partials partials{};

  PartialsMemory(CudaQueue& queue, const DtnNormBackward& args, const Line& line, bool in_place)
      : sums(nullptr), planes(nullptr), unfinished(nullptr) {
    const DtnSizes& z = line.sizes;
    const bool wants_dx = args.dx != nullptr;
    const std::int64_t of_channels = z.batch * line.tiles * z.channels;
    const std::int64_t of_heads = z.batch * line.tiles * line.parts * z.heads;
    const std::int64_t of_tokens = z.batch * z.heads * line.parts * z.tokens;
    sums = queue.scratch<float>(4 * of_channels + 5 * of_heads + (wants_dx ? 2 * of_tokens : 0));
    float* at = sums.get();
    auto take = [&at](std::int64_t count) {
      float* taken = at;
      at += count;
      return taken;
    };
    partials.weight = take(of_channels);
    partials.bias = take(of_channels);
    partials.dm_sums = take(2 * of_channels);
    partials.lambda_mean = take(of_heads);
    partials.lambda_var = take(of_heads);
    float* pos_weight = take(3 * of_heads);
    if (args.dpos_weight) partials.pos_weight = pos_weight;
    if (!wants_dx) return;
    partials.token_sums = take(2 * of_tokens);
    const std::int64_t elements = z.batch * z.tokens * z.channels;
    planes = queue.scratch<float>(2 * elements);
    partials.dm1 = planes.get();
    partials.dm2 = planes.get() + elements;
    if (!in_place) unfinished = queue.scratch<float>(z.batch * z.image);
    partials.unfinished = in_place ? static_cast<float*>(args.dx) : unfinished.get();
  }
};

template <class T, bool kOfficial>
void run_backward(CudaQueue& queue, const DtnSequenceBackward& args) {
  const DtnNormBackward& norm = args.norm;
  const Line line(args);
  // True if dx can hold the unfinished gradient, dx_add included; otherwise it is in scratch
  // memory.
  const bool in_place = std::is_same_v<T, float> && !kOfficial && norm.dx;
  const DtnPrepared prepared = prepare(queue, norm, 0, 0, false);
  const MeansMemory means = make_means(queue, line, norm, norm.dpos_weight ? 3 : 1);
  const PartialsMemory memory(queue, norm, line, in_place);
  const Partials& p = memory.partials;
  auto pointer = [](const void* from) { return static_cast<const float*>(from); };
  const BackwardArguments a{line,
                            means.means,
                            prepared.bases.get(),
                            pointer(norm.token_mean),
                            pointer(norm.token_var),
                            pointer(norm.lambda_mean),
                            pointer(norm.lambda_var),
                            pointer(norm.weight),
                            norm.dy,
                            in_place ? pointer(norm.dx_add) : nullptr,
                            p};
  const dim3 blocks = blocks_for(line.slices() * line.tiles, 1);
  if (norm.dpos_weight) {
    launch(queue, kernel_name("dtn_sequence_rows", line), dtn_sequence_rows_kernel<T, kOfficial, 3>,
           {blocks, kThreads, sizeof(BackwardRoom<3>)}, a);
  } else {
    launch(queue, kernel_name("dtn_sequence_rows", line), dtn_sequence_rows_kernel<T, kOfficial, 1>,
           {blocks, kThreads, sizeof(BackwardRoom<1>)}, a);
  }
  if (norm.dx) {
    launch(queue, kernel_name("dtn_sequence_keys", line), dtn_sequence_keys_kernel<T, kOfficial>,
           {blocks, kThreads, kWarps * sizeof(WarpRoom<1>)}, a);
    finish_input_gradient(queue, norm, prepared.bases.get(), p.unfinished, p.token_sums,
                          line.sizes.heads * line.parts, !in_place, args.lengths);
  }
  const std::int64_t rows = line.sizes.batch * line.tiles;
  finish_parameter_gradients(
      queue, norm,
      {rows, p.weight, p.bias, rows * line.parts, p.lambda_mean, p.lambda_var, p.pos_weight});
}

}  // namespace
}  // namespace line

void run(CudaQueue& queue, const DtnSequenceBackward& args) {
  const DtnNormBackward& norm = args.norm;
  line::check(norm);
  if (norm.is_empty()) return;
  for_dtn_variant("dtn_sequence_backward", norm, [&]<class T, bool kOfficial>() {
    line::run_backward<T, kOfficial>(queue, args);
  });
}

}  // namespace dtn
