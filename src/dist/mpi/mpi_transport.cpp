// Transport over MPI: non-blocking collectives for bytes, small messages for notes. All calls come
// from the thread that started MPI. MPI's default error handling stays: a failure ends the job with
// a message.
#include <mpi.h>

#include <climits>
#include <list>

#include "dist/mpi/module.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr int kNoteTag = 1;

struct Blocks {
  std::vector<int> counts, begins;

  explicit Blocks(const std::vector<ByteBlock>& blocks) {
    for (const ByteBlock& block : blocks) {
      DTN_CHECK(block.begin + block.bytes <= INT_MAX, "a message is larger than 2 GiB");
      counts.push_back(static_cast<int>(block.bytes));
      begins.push_back(static_cast<int>(block.begin));
    }
  }
};

class MpiMove : public Transport::Move {
 public:
  bool done() override {
    int flag = 0;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }

  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<Blocks> blocks;  // MPI reads them until the move is done
};

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    DTN_CHECK(provided >= MPI_THREAD_FUNNELED, "this MPI does not support programs with threads");
    // One communicator for each kind of move, so that different kinds may start in any order.
    for (MPI_Comm* comm : {&exchanges_, &gathers_, &notes_}) MPI_Comm_dup(MPI_COMM_WORLD, comm);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local_rank_);
    MPI_Comm_size(host, &local_size_);
    MPI_Comm_free(&host);
  }

  ~MpiTransport() override {
    // Notes that are still on their way are not needed, but MPI requires their receipt.
    MpiMove all_here;
    MPI_Ibarrier(notes_, &all_here.request);
    while (!all_here.done()) (void)receive();
    while (receive()) {
    }
    while (!sent_.empty()) std::erase_if(sent_, [](Sent& s) { return s.move.done(); });
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }

  std::unique_ptr<Move> exchange(const std::byte* from, const std::vector<ByteBlock>& from_blocks,
                                 std::byte* to, const std::vector<ByteBlock>& to_blocks) override {
    auto move = std::make_unique<MpiMove>();
    move->blocks = {Blocks(from_blocks), Blocks(to_blocks)};
    const Blocks &sent = move->blocks[0], &received = move->blocks[1];
    MPI_Ialltoallv(from, sent.counts.data(), sent.begins.data(), MPI_BYTE, to,
                   received.counts.data(), received.begins.data(), MPI_BYTE, exchanges_,
                   &move->request);
    return move;
  }

  std::unique_ptr<Move> gather(std::byte* all, const std::vector<ByteBlock>& blocks) override {
    auto move = std::make_unique<MpiMove>();
    move->blocks = {Blocks(blocks)};
    const Blocks& of_ranks = move->blocks[0];
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, of_ranks.counts.data(),
                    of_ranks.begins.data(), MPI_BYTE, gathers_, &move->request);
    return move;
  }

  std::unique_ptr<Move> broadcast(std::byte* data, std::size_t bytes, int root) override {
    DTN_CHECK(bytes <= INT_MAX, "a message is larger than 2 GiB");
    auto move = std::make_unique<MpiMove>();
    MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, gathers_, &move->request);
    return move;
  }

  void send(const RankNote& note, int to) override {
    std::erase_if(sent_, [](Sent& s) { return s.move.done(); });
    Sent& s = sent_.emplace_back();
    s.note = note;
    MPI_Isend(&s.note, sizeof s.note, MPI_BYTE, to, kNoteTag, notes_, &s.move.request);
  }

  std::optional<RankNote> receive() override {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kNoteTag, notes_, &there, &status);
    if (!there) return std::nullopt;
    RankNote note;
    MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, kNoteTag, notes_, MPI_STATUS_IGNORE);
    return note;
  }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  struct Sent {
    RankNote note;
    MpiMove move;
  };

  MPI_Comm exchanges_ = MPI_COMM_NULL, gathers_ = MPI_COMM_NULL, notes_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::list<Sent> sent_;  // MPI may still read these notes
};

}  // namespace
}  // namespace dtn

extern "C" dtn::Transport* dtn_open_mpi_transport() { return new dtn::MpiTransport; }
