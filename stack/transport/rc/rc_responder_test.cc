#include "stack/transport/rc/rc_responder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "stack/transport/test_pair.h"
#include "stack/wire/icrc.h"

namespace pollux::transport {
namespace {

using wire::Operation;

class RcResponderTest : public ::testing::Test {
 protected:
  uint64_t Remote(uint32_t offset = 0) {
    return reinterpret_cast<uint64_t>(pair_.b.memory.data()) + offset;
  }
  // Posts one request that must fail at both ends.
  void ExpectFailure(ibv_wr_opcode opcode, uint32_t length, uint64_t remote, uint32_t rkey,
                     ibv_wc_status status, ibv_event_type event) {
    pair_.a.PostSend(opcode, 1, pair_.a.memory.data(), length, remote, rkey);
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, status) << ibv_wc_status_str(all[0].status);
    EXPECT_EQ(pair_.a.endpoint->qp.state(), IBV_QPS_ERR);
    EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_ERR);
    std::erase(pair_.b.events, IBV_EVENT_COMM_EST);  // of the first packet, whatever it asked for
    EXPECT_EQ(pair_.b.events, std::vector<ibv_event_type>{event});
  }
  TestPair pair_;
};

TEST_F(RcResponderTest, AWriteOneByteBeyondTheRegionIsRefused) {
  ExpectFailure(IBV_WR_RDMA_WRITE, 5000, Remote((1 << 20) - 4999), pair_.b.key,
                IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  // Not even the packets that would have fitted were placed.
  for (uint8_t byte : pair_.b.memory) ASSERT_EQ(byte, 0);
}

TEST_F(RcResponderTest, AnUnknownKeyIsRefused) {
  ExpectFailure(IBV_WR_RDMA_READ, 10, Remote(), pair_.b.key ^ 1, IBV_WC_REM_ACCESS_ERR,
                IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcResponderTest, ADeregisteredKeyIsRefusedImmediately) {
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 0, pair_.a.memory.data(), 10, Remote(), pair_.b.key);
  pair_.RunToEnd();
  ASSERT_EQ(pair_.a.Poll().size(), 1u);
  ASSERT_TRUE(pair_.b.regions.Deregister(pair_.b.key).ok());
  ExpectFailure(IBV_WR_RDMA_WRITE, 10, Remote(), pair_.b.key, IBV_WC_REM_ACCESS_ERR,
                IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcResponderTest, DeregistrationDuringAReadFailsIt) {
  int responses = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (!from_a && packet.info->operation == Operation::kReadResponse && ++responses == 1) {
      EXPECT_TRUE(pair_.b.regions.Deregister(pair_.b.key).ok());
    }
    return PacketAction::kDeliver;
  };
  ExpectFailure(IBV_WR_RDMA_READ, 100'000, Remote(), pair_.b.key, IBV_WC_REM_ACCESS_ERR,
                IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_LE(responses, 33) << "what the burst under way had copied already";
}

// Hands frames to b as if they came late, after whatever went before.
class RcResponderLateTest : public RcResponderTest {
 protected:
  // A READ runs to its end; its requests are kept.
  void ReadOnce(uint32_t length) {
    pair_.hook = [this](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (from_a && packet.info->operation == Operation::kReadRequest) {
        const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
        requests_.emplace_back(bytes, bytes + frame->data_len);
      }
      return PacketAction::kDeliver;
    };
    pair_.a.PostSend(IBV_WR_RDMA_READ, 1, pair_.a.memory.data(), length, Remote(), pair_.b.key);
    pair_.RunToEnd();
    ExpectOneSuccess();
    pair_.hook = [this](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
      responses_ += !from_a && packet.info->operation == Operation::kReadResponse;
      return PacketAction::kDeliver;
    };
  }
  void ComesAgain() {
    PollContext context = pair_.b.context(pair_.now_ns);
    for (const std::vector<uint8_t>& request : requests_) {
      wire::RocePacket packet;
      ASSERT_EQ(wire::ParseRocePacket(request.data(), request.size(), &packet),
                wire::ParseResult::kOk);
      pair_.b.endpoint->OnPacket(packet, context);
    }
  }
  void ExpectOneSuccess() {
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS) << ibv_wc_status_str(all[0].status);
  }
  std::vector<std::vector<uint8_t>> requests_;
  int responses_ = 0;
};

TEST_F(RcResponderLateTest, ADuplicateReadIsAnsweredAgain) {
  ReadOnce(5000);
  ComesAgain();
  pair_.Run();
  EXPECT_EQ(responses_, 5);
  EXPECT_EQ(pair_.b.counters.duplicate_request, 1u);
}

// IB specification 9.4.5: a duplicate may ask for a part, and what it asks for it gets.
TEST_F(RcResponderLateTest, ADuplicateReadGetsTheLengthItRequests) {
  constexpr uint32_t kLength = 10'000;
  for (uint32_t i = 0; i < kLength; ++i) pair_.b.memory[i] = static_cast<uint8_t>(i * 7 + i / 256);
  ReadOnce(kLength);
  ASSERT_EQ(requests_.size(), 1u);
  const std::vector<uint8_t> asked = requests_[0];
  struct Response {
    uint32_t packet;
    wire::Opcode opcode;
    uint16_t bytes;
    bool operator==(const Response&) const = default;
  };
  std::vector<Response> responses;
  Psn first;
  pair_.hook = [&](bool, const wire::RocePacket& packet, rte_mbuf*) {
    const auto number = static_cast<uint32_t>(Distance(first, packet.bth.psn));
    responses.push_back({number, packet.bth.opcode, packet.payload_length});
    EXPECT_EQ(
        std::memcmp(packet.payload(), pair_.b.memory.data() + number * 1024, packet.payload_length),
        0);
    return PacketAction::kDrop;
  };
  // Its packets from `number` on, `length` bytes; `offset` bytes beside them, or by another key.
  const auto repeat = [&](uint32_t number, uint32_t length, uint32_t offset = 0,
                          uint32_t key_bits = 0) {
    requests_[0] = asked;
    uint8_t* const bytes = requests_[0].data();
    wire::RocePacket packet;
    ASSERT_EQ(wire::ParseRocePacket(bytes, asked.size(), &packet), wire::ParseResult::kOk);
    first = packet.bth.psn;
    wire::Reth reth = packet.reth();
    reth.address += number * 1024 + offset;
    reth.rkey ^= key_bits;
    reth.length = length;
    wire::EmitReth(reth, bytes + packet.ext_offset);
    wire::Bth bth = packet.bth;
    bth.psn = first + number;
    wire::EmitBth(bth, bytes + packet.bth_offset);
    wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    responses.clear();
    ComesAgain();
    pair_.Run();
  };
  using enum wire::Opcode;
  repeat(2, 1500);
  EXPECT_EQ(responses, (std::vector<Response>{{2, kRcReadResponseFirst, 1024},
                                              {3, kRcReadResponseLast, 476}}));
  repeat(2, 400);
  EXPECT_EQ(responses, (std::vector<Response>{{2, kRcReadResponseOnly, 400}}));
  repeat(2, 0);
  EXPECT_EQ(responses, (std::vector<Response>{{2, kRcReadResponseOnly, 0}}));
  repeat(8, 1024 + 700);
  EXPECT_EQ(responses, (std::vector<Response>{{8, kRcReadResponseFirst, 1024},
                                              {9, kRcReadResponseLast, 700}}));
  // As far as it was first asked, and no further.
  repeat(9, kLength - 9 * 1024);
  EXPECT_EQ(responses, (std::vector<Response>{{9, kRcReadResponseOnly, 784}}));
  repeat(9, kLength - 9 * 1024 + 1);
  EXPECT_EQ(responses, std::vector<Response>{});
  // Nor any other memory.
  repeat(2, 1024, 8);
  EXPECT_EQ(responses, std::vector<Response>{});
  repeat(2, 1024, 0, 1);
  EXPECT_EQ(responses, std::vector<Response>{});
}

// Late copies, of which the network can make any number, take no room from READs to come: what
// they ask for the peer has long had.
TEST_F(RcResponderLateTest, DuplicateReadsGiveWayToNewReads) {
  ReadOnce(900'000);
  ComesAgain();
  const uint32_t allowed = TestPair::DefaultAttr().max_dest_rd_atomic;
  for (uint32_t i = 0; i < allowed; ++i) {
    pair_.a.PostSend(IBV_WR_RDMA_READ, 2 + i, pair_.a.memory.data(), 10, Remote(), pair_.b.key);
  }
  pair_.RunToEnd();
  const std::vector<ibv_wc> all = pair_.a.Poll();
  ASSERT_EQ(all.size(), allowed);
  for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
  EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_RTS);
}

TEST_F(RcResponderLateTest, ADuplicateReadOfADeregisteredRegionIsDropped) {
  ReadOnce(5000);
  const uint32_t other = pair_.b.regions
                             .Register(&pair_.b.pd, pair_.b.memory.data(), 100,
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE)
                             ->key;
  ASSERT_TRUE(pair_.b.regions.Deregister(pair_.b.key).ok());
  ComesAgain();
  pair_.Run();
  EXPECT_EQ(responses_, 0);
  EXPECT_EQ(pair_.b.counters.drop(Drop::kDuplicateDropped), 1u);
  EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_RTS);
  EXPECT_EQ(pair_.b.events, std::vector<ibv_event_type>{IBV_EVENT_COMM_EST});
  // The connection goes on.
  pair_.a.PostSend(IBV_WR_RDMA_READ, 2, pair_.a.memory.data(), 100, Remote(), other);
  pair_.RunToEnd();
  ExpectOneSuccess();
}

TEST_F(RcResponderTest, AKeyOfAnotherDomainIsRefused) {
  memory::ProtectionDomain other{.regions = &pair_.b.regions, .handle = 2};
  const uint32_t foreign =
      pair_.b.regions.Register(&other, pair_.b.memory.data(), 100, IBV_ACCESS_REMOTE_READ)->key;
  ExpectFailure(IBV_WR_RDMA_READ, 10, Remote(), foreign, IBV_WC_REM_ACCESS_ERR,
                IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RcResponderTest, ATooSmallReceiveIsALengthError) {
  pair_.b.PostRecv(7, pair_.b.memory.data(), 9);
  ExpectFailure(IBV_WR_SEND, 10, 0, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_FATAL);
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(all[0].wr_id, 7u);
}

TEST_F(RcResponderTest, AReceiveInReadOnlyMemoryIsAProtectionError) {
  uint8_t target[16] = {};
  ibv_sge sge{reinterpret_cast<uint64_t>(target), sizeof target,
              pair_.b.regions.Register(&pair_.b.pd, target, sizeof target, 0)->key};
  ibv_recv_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  pair_.b.endpoint->qp.PostRecv(&wr, nullptr);
  pair_.a.memory[0] = 1;
  ExpectFailure(IBV_WR_SEND, 10, 0, 0, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(target[0], 0);
}

// Writes over one field of each request that leaves a, with an ICRC that is right again.
class RcResponderForgeryTest : public RcResponderTest {
 protected:
  using Change = std::function<void(const wire::RocePacket&, uint8_t* frame)>;
  void Forge(const Change& change) {
    pair_.hook = [change](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
      if (!from_a) return PacketAction::kDeliver;
      uint8_t* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
      change(packet, bytes);
      wire::RocePacket changed;
      if (wire::ParseRocePacket(bytes, frame->data_len, &changed) == wire::ParseResult::kOk) {
        wire::EmitIcrc(wire::ComputeIcrc(changed), bytes + changed.icrc_offset);
      }
      return PacketAction::kDeliver;
    };
  }
  void ExpectLastIsRefused(uint32_t last_bytes) {
    Forge([](const wire::RocePacket& packet, uint8_t* frame) {
      const bool first = packet.payload_length == 512;
      frame[packet.bth_offset] =
          static_cast<uint8_t>(first ? wire::Opcode::kRcSendFirst : wire::Opcode::kRcSendLast);
    });
    pair_.b.endpoint->qp.attr.path_mtu = IBV_MTU_512;  // that of a is 1,024
    pair_.b.PostRecv(1, pair_.b.memory.data(), 4096);
    pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 512);
    pair_.a.PostSend(IBV_WR_SEND, 2, pair_.a.memory.data(), last_bytes);
    pair_.RunToEnd();
    const std::vector<ibv_wc> all = pair_.a.Poll();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(all[1].status, IBV_WC_REM_INV_REQ_ERR);
  }
};

TEST_F(RcResponderForgeryTest, AMiddleWithoutAFirstIsRefused) {
  Forge([](const wire::RocePacket& packet, uint8_t* frame) {
    frame[packet.bth_offset] = static_cast<uint8_t>(wire::Opcode::kRcSendMiddle);
  });
  pair_.b.PostRecv(1, pair_.b.memory.data(), 4096);
  ExpectFailure(IBV_WR_SEND, 1024, 0, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcResponderForgeryTest, AShortFirstIsRefused) {
  Forge([](const wire::RocePacket& packet, uint8_t* frame) {
    frame[packet.bth_offset] = static_cast<uint8_t>(wire::Opcode::kRcSendFirst);
  });
  pair_.b.PostRecv(1, pair_.b.memory.data(), 4096);
  ExpectFailure(IBV_WR_SEND, 1000, 0, 0, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

// Two messages that become a First and a Last.
TEST_F(RcResponderForgeryTest, ATooLongLastIsRefused) { ExpectLastIsRefused(513); }

TEST_F(RcResponderForgeryTest, AnEmptyLastIsRefused) { ExpectLastIsRefused(0); }

TEST_F(RcResponderForgeryTest, AWriteLongerThanItsDmaLengthIsRefused) {
  Forge([](const wire::RocePacket& packet, uint8_t* frame) {
    frame[packet.ext_offset + 15] -= 1;  // DMA length
  });
  ExpectFailure(IBV_WR_RDMA_WRITE, 100, Remote(), pair_.b.key, IBV_WC_REM_INV_REQ_ERR,
                IBV_EVENT_QP_REQ_ERR);
}

TEST_F(RcResponderForgeryTest, ADmaLengthAboveTheMaximumIsRefused) {
  Forge(
      [](const wire::RocePacket& packet, uint8_t* frame) { frame[packet.ext_offset + 12] = 0x90; });
  ExpectFailure(IBV_WR_RDMA_READ, 100, Remote(), pair_.b.key, IBV_WC_REM_INV_REQ_ERR,
                IBV_EVENT_QP_REQ_ERR);
}

TEST(RcResponderResourcesTest, ReadsBeyondTheResponderResourcesAreRefused) {
  ibv_qp_attr attr = TestPair::DefaultAttr();
  attr.max_dest_rd_atomic = 1;
  TestPair pair(IBV_QPT_RC, &attr);
  for (int i = 0; i < 2; ++i) {
    pair.a.PostSend(IBV_WR_RDMA_READ, i, pair.a.memory.data(), kMinReadRequestPackets * 1024,
                    reinterpret_cast<uint64_t>(pair.b.memory.data()), pair.b.key);
  }
  pair.RunToEnd();
  const std::vector<ibv_wc> all = pair.a.Poll();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(RcResponderTest, CorruptFramesNeverReachMemory) {
  bool corrupt = true;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a && corrupt) {
      rte_pktmbuf_mtod(frame, uint8_t*)[packet.payload_offset] ^= 0x40;
    }
    return PacketAction::kDeliver;
  };
  std::fill_n(pair_.a.memory.begin(), 3000, 0xAA);
  pair_.a.PostSend(IBV_WR_RDMA_WRITE, 1, pair_.a.memory.data(), 3000, Remote(), pair_.b.key);
  pair_.Run();
  for (uint8_t byte : pair_.b.memory) ASSERT_EQ(byte, 0);
  EXPECT_EQ(pair_.b.counters.drop(Drop::kBadIcrc), 3u);
  corrupt = false;
  pair_.RunToEnd();
  EXPECT_EQ(pair_.a.Poll().size(), 1u);
  EXPECT_EQ(pair_.b.memory[2999], 0xAA);
}

TEST_F(RcResponderTest, AcknowledgementsAreCoalesced) {
  int acks = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    acks += !from_a && packet.info->operation == Operation::kAck;
    return PacketAction::kDeliver;
  };
  for (int i = 0; i < 64; ++i) {
    pair_.b.PostRecv(i, pair_.b.memory.data(), 64);
    pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data(), 64);
  }
  pair_.Run();
  EXPECT_EQ(pair_.a.Poll().size(), 64u);
  EXPECT_LE(acks, 4);
  EXPECT_GE(acks, 1);
}

// The answer is lost once, so that what came before it comes again by itself.
TEST(RcResponderAnswerTest, AcknowledgementsSkipReadsAndAtomics) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    TestPair pair;
    Psn written;
    int answers = 0;
    std::vector<Psn> acknowledged;
    pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
      if (packet.info->operation == Operation::kWrite) written = packet.bth.psn;
      if (from_a) return PacketAction::kDeliver;
      if (packet.info->operation != Operation::kAck) {
        return answers++ == 0 ? PacketAction::kDrop : PacketAction::kDeliver;
      }
      acknowledged.push_back(packet.bth.psn);
      return PacketAction::kDeliver;
    };
    const auto remote = reinterpret_cast<uint64_t>(pair.b.memory.data());
    uint8_t* const local = pair.a.memory.data();
    pair.a.PostSend(IBV_WR_RDMA_WRITE, 1, local, 8, remote, pair.b.key);
    if (opcode == IBV_WR_RDMA_READ) {
      pair.a.PostSend(opcode, 2, local, 8, remote, pair.b.key);
    } else {
      pair.a.PostAtomic(opcode, 2, local, remote, pair.b.key, 1);
    }
    pair.RunToEnd();
    const std::vector<ibv_wc> all = pair.a.Poll();
    ASSERT_EQ(all.size(), 2u);
    for (const ibv_wc& wc : all) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(answers, 2);
    EXPECT_EQ(acknowledged, std::vector<Psn>{written});
    acknowledged.clear();
    PollContext context = pair.b.context(pair.now_ns);
    pair.b.endpoint->AcknowledgeAtLast(context);
    pair.Run();
    EXPECT_TRUE(acknowledged.empty());
  }
}

TEST_F(RcResponderTest, AGapGetsOneSequenceNak) {
  int frame_number = 0, naks = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (from_a) return frame_number++ == 2 ? PacketAction::kDrop : PacketAction::kDeliver;
    naks += packet.info->operation == Operation::kAck &&
            packet.aeth().syndrome == wire::kNakPsnSequence;
    return PacketAction::kDeliver;
  };
  pair_.b.PostRecv(1, pair_.b.memory.data(), 100'000);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 100'000);
  pair_.RunToEnd();
  EXPECT_EQ(naks, 1);
  EXPECT_EQ(pair_.a.Poll().size(), 1u);
  EXPECT_EQ(pair_.b.counters.sent_seq_nak, 1u);
}

TEST_F(RcResponderTest, PacketsAfterAnRnrNakAreDroppedSilently) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  for (int i = 0; i < 5; ++i) pair_.a.PostSend(IBV_WR_SEND, i, pair_.a.memory.data(), 64);
  pair_.Run();
  EXPECT_EQ(pair_.b.counters.send_rnr_err, 1u);
  EXPECT_EQ(pair_.b.counters.drop(Drop::kAfterRnr), 3u);
  EXPECT_EQ(pair_.b.counters.sent_seq_nak, 0u);
}

TEST_F(RcResponderTest, PacketsFromAnotherAddressAreDropped) {
  pair_.b.PostRecv(1, pair_.b.memory.data(), 64);
  pair_.b.endpoint->qp.path.destination = Gid::FromIpv4(0xC0000299);
  pair_.a.PostSend(IBV_WR_SEND, 1, pair_.a.memory.data(), 64);
  pair_.Run();
  EXPECT_EQ(pair_.b.counters.drop(Drop::kBadAddress), 1u);
  EXPECT_TRUE(pair_.b.Poll().empty());
}

// b takes messages of one packet by a call.
class MessageHandlerTest : public ::testing::Test {
 protected:
  MessageHandlerTest() {
    verbs::QueuePairInitAttr init;
    init.pd = &pair_.b.pd;
    init.send_cq = init.recv_cq = &pair_.b.cq;
    init.cap = pair_.b.endpoint->qp.init().cap;
    init.message_handler = {&MessageHandlerTest::Handle, this};
    pair_.b.endpoint = std::make_unique<Endpoint>(Qpn{0x222}, std::move(init), &pair_.b.active);
    pair_.b.Connect(pair_.a, TestPair::DefaultAttr());
    for (int i = 0; i < 4096; ++i) pair_.a.memory[i] = static_cast<uint8_t>(i);
    // The first message, whose headers b learns, completes a receive.
    Receive(0);
    Send(10);
    pair_.RunToEnd();
    EXPECT_EQ(pair_.b.Poll().size(), 1u);
  }
  static void Handle(void* test, const verbs::PostedRecv& receive, const uint8_t* message,
                     size_t bytes) {
    auto& self = *static_cast<MessageHandlerTest*>(test);
    EXPECT_EQ(std::memcmp(message, self.pair_.a.memory.data(), bytes), 0);
    self.handled_.push_back(receive.wr_id);
    if (self.on_message_) self.on_message_();
  }
  void Receive(uint64_t wr_id) {
    ASSERT_EQ(pair_.b.PostRecv(wr_id, pair_.b.memory.data() + 4096 * wr_id, 4096), 0);
  }
  void Send(uint32_t bytes, ibv_wr_opcode opcode = IBV_WR_SEND, uint32_t key = 0) {
    ASSERT_EQ(pair_.a.PostSend(opcode, 1, pair_.a.memory.data(), bytes, 0, key), 0);
  }

  TestPair pair_;
  std::vector<uint64_t> handled_;  // the wr_id of their receives
  std::function<void()> on_message_;
};

TEST_F(MessageHandlerTest, AMessageIsHandledWithoutItsReceive) {
  pair_.a.Poll();
  Receive(1);
  Send(1024);
  Send(1);
  pair_.RunToEnd();
  EXPECT_EQ(handled_, (std::vector<uint64_t>{1, 1}));
  EXPECT_EQ(pair_.a.Poll().size(), 2u);
  EXPECT_TRUE(pair_.b.Poll().empty());
  EXPECT_EQ(pair_.b.memory[4096], 0) << "nothing is copied";
  EXPECT_EQ(pair_.b.counters.rdma_recvs, 3u);
}

TEST_F(MessageHandlerTest, AKeptReceiveIsNotUsedAgain) {
  on_message_ = [this] { pair_.b.endpoint->qp.ConsumeRecv(); };
  for (uint64_t wr_id : {1, 2}) Receive(wr_id);
  for (int i = 0; i < 3; ++i) Send(10);
  pair_.Run();
  EXPECT_EQ(handled_, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(pair_.b.counters.send_rnr_err, 1u) << "the third has no receive";
  Receive(3);
  pair_.RunToEnd();
  EXPECT_EQ(handled_.size() + pair_.b.Poll().size(), 3u);
  EXPECT_EQ(pair_.a.Poll().size(), 4u);
}

// What needs more than a call writes completions.
TEST_F(MessageHandlerTest, OtherMessagesCompleteReceives) {
  const uint32_t key = pair_.b.regions.AllocFast(&pair_.b.pd, 8)->key;
  ASSERT_TRUE(
      pair_.b.regions.Map(pair_.b.pd, {.key = key, .length = 8, .access = IBV_ACCESS_REMOTE_READ}));
  for (uint64_t wr_id = 1; wr_id <= 5; ++wr_id) Receive(wr_id);
  Send(10);
  Send(2000);  // two packets
  Send(20);
  Send(10, IBV_WR_SEND_WITH_IMM);
  Send(10, IBV_WR_SEND_WITH_INV, key);
  Send(0);
  Send(30);
  pair_.RunToEnd();
  EXPECT_EQ(handled_, (std::vector<uint64_t>{1, 2, 5}));
  const std::vector<ibv_wc> all = pair_.b.Poll();
  ASSERT_EQ(all.size(), 4u);
  const uint32_t bytes[] = {2000, 10, 10, 0};
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].wr_id, i + 1);
    EXPECT_EQ(all[i].byte_len, bytes[i]);
    EXPECT_EQ(all[i].status, IBV_WC_SUCCESS);
  }
}

TEST_F(MessageHandlerTest, AnIllegalMessageIsNotHandled) {
  Receive(1);
  // The last packet of the first message is lost on its way.
  pair_.hook = [](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (!from_a || packet.info->position != wire::kLast) return PacketAction::kDeliver;
    auto* bytes = rte_pktmbuf_mtod(frame, uint8_t*);
    bytes[packet.bth_offset] = static_cast<uint8_t>(wire::Opcode::kRcSendOnly);
    wire::EmitIcrc(wire::ComputeIcrc(packet), bytes + packet.icrc_offset);
    return PacketAction::kDeliver;
  };
  Send(2000);
  pair_.RunToEnd();
  EXPECT_TRUE(handled_.empty());
  EXPECT_EQ(pair_.b.endpoint->qp.state(), IBV_QPS_ERR);
}

TEST_F(MessageHandlerTest, ACorruptMessageIsNotHandled) {
  Receive(1);
  int frames = 0;
  pair_.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf* frame) {
    if (from_a && frames++ == 0) rte_pktmbuf_mtod(frame, uint8_t*)[packet.payload_offset] ^= 1;
    return PacketAction::kDeliver;
  };
  Send(10);
  pair_.RunToEnd();
  EXPECT_EQ(handled_.size(), 1u) << "once, when it comes again";
  EXPECT_EQ(pair_.b.counters.drop(Drop::kBadIcrc), 1u);
}

TEST_F(MessageHandlerTest, TheHandlerMayEndTheQueuePair) {
  on_message_ = [this] {
    pair_.b.endpoint->qp.EnterError();
    pair_.b.endpoint->qp.ConsumeRecv();  // which was flushed
  };
  for (uint64_t wr_id : {1, 2}) Receive(wr_id);
  Send(10);
  Send(10);
  pair_.Run();
  EXPECT_EQ(handled_.size(), 1u);
  EXPECT_EQ(pair_.b.endpoint->qp.rq_depth(), 0u);
  const std::vector<ibv_wc> flushed = pair_.b.Poll();
  ASSERT_EQ(flushed.size(), 2u);
  for (const ibv_wc& wc : flushed) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(pair_.b.endpoint->TakeFailure());
}

// One for each message: a SEND of several packets, a READ when it is accepted, an atomic.
TEST(RcResponderMsnTest, CountsMessagesAcrossTheWrap) {
  TestPair pair(IBV_QPT_RC, nullptr, false, nullptr, 0xFFFFFD);
  std::vector<uint32_t> numbers;
  pair.hook = [&](bool from_a, const wire::RocePacket& packet, rte_mbuf*) {
    if (!from_a) numbers.push_back(packet.aeth().msn);
    return PacketAction::kDeliver;
  };
  const auto remote = reinterpret_cast<uint64_t>(pair.b.memory.data());
  const auto post = [&](ibv_wr_opcode opcode, uint32_t bytes) {
    ASSERT_EQ(pair.a.PostSend(opcode, 1, pair.a.memory.data(), bytes, remote, pair.b.key), 0);
    pair.RunToEnd();
  };
  pair.b.PostRecv(1, pair.b.memory.data(), 3000);
  post(IBV_WR_SEND, 3000);
  post(IBV_WR_RDMA_READ, 10);
  ASSERT_EQ(pair.a.PostAtomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, pair.a.memory.data(), remote,
                              pair.b.key, 1),
            0);
  pair.RunToEnd();
  post(IBV_WR_RDMA_WRITE, 10);
  EXPECT_EQ(numbers, (std::vector<uint32_t>{0xFFFFFE, 0xFFFFFF, 0, 1}));
}

}  // namespace
}  // namespace pollux::transport
