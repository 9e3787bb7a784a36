// Looking at completions one by one: ibv_start_poll(3), ibv_next_poll(3), ibv_wc_read_*(3).
#include <cerrno>

#include "compat/verbs/objects.h"

namespace pollux::compat {
namespace {

int NextPoll(ibv_cq_ex* cq) {
  ibv_wc& wc = Of(cq)->current;
  const int taken = PollCq(ibv_cq_ex_to_cq(cq), 1, &wc);
  if (taken == 0) return ENOENT;
  if (taken < 0) return EIO;
  cq->wr_id = wc.wr_id;
  cq->status = wc.status;
  return 0;
}

void EndPoll(ibv_cq_ex* cq) {
  if (!Of(cq)->single_threaded) Of(cq)->looking.Leave();
}

// Who is given no completion does not end what it began.
int StartPoll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) return EINVAL;
  if (!Of(cq)->single_threaded) Of(cq)->looking.Enter();
  const int error = NextPoll(cq);
  if (error != 0) EndPoll(cq);
  return error;
}

ibv_wc_opcode ReadOpcode(ibv_cq_ex* cq) { return Of(cq)->current.opcode; }
uint32_t ReadVendorErr(ibv_cq_ex* cq) { return Of(cq)->current.vendor_err; }
uint32_t ReadByteLen(ibv_cq_ex* cq) { return Of(cq)->current.byte_len; }
__be32 ReadImmData(ibv_cq_ex* cq) { return Of(cq)->current.imm_data; }
uint32_t ReadQpNum(ibv_cq_ex* cq) { return Of(cq)->current.qp_num; }
uint32_t ReadSrcQp(ibv_cq_ex* cq) { return Of(cq)->current.src_qp; }
unsigned ReadWcFlags(ibv_cq_ex* cq) { return Of(cq)->current.wc_flags; }
uint32_t ReadSlid(ibv_cq_ex* cq) { return Of(cq)->current.slid; }
uint8_t ReadSl(ibv_cq_ex* cq) { return Of(cq)->current.sl; }
uint8_t ReadDlidPathBits(ibv_cq_ex* cq) { return Of(cq)->current.dlid_path_bits; }

}  // namespace

void SetPollCalls(Cq* cq) {
  cq->start_poll = StartPoll;
  cq->next_poll = NextPoll;
  cq->end_poll = EndPoll;
  cq->read_opcode = ReadOpcode;
  cq->read_vendor_err = ReadVendorErr;
  cq->read_byte_len = ReadByteLen;
  cq->read_imm_data = ReadImmData;
  cq->read_qp_num = ReadQpNum;
  cq->read_src_qp = ReadSrcQp;
  cq->read_wc_flags = ReadWcFlags;
  cq->read_slid = ReadSlid;
  cq->read_sl = ReadSl;
  cq->read_dlid_path_bits = ReadDlidPathBits;
}

}  // namespace pollux::compat
