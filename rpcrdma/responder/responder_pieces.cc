// Pieces of a result that go out ahead of the reply, while the handler makes the rest.
#include <utility>

#include "rpcrdma/responder/responder.h"

namespace pollux::rpcrdma {

uint64_t Responder::PieceRoom(uint32_t index) {
  const Slot& slot = slots_[index];
  // Of a reply that is remembered all must be there when it is given.
  if (!slot.has_chunks || !slot.may_reduce || slot.cached != kNotCached) return 0;
  size_t header_bytes = 0;
  ParseHeader(slot.message, header_.get(), &header_bytes);
  const ChunkLists& chunks = header_->chunks;
  return chunks.write_chunk_count > 0 ? chunks.BytesOf(chunks.write_chunks[0]) : 0;
}

bool Responder::CanWritePiece() const {
  if (client_is_gone()) return true;
  return pieces_.size() < kMaxPieces && wait_room_.empty() &&
         connection_->send_room() >= kMaxWriteSegments && connection_->HasRegionLeft();
}

void Responder::WritePiece(uint32_t index, ResultPiece piece) {
  if (TryWritePiece(index, piece) || !piece.release) return;
  piece.release();
}

bool Responder::TryWritePiece(uint32_t index, ResultPiece& piece) {
  Slot& slot = slots_[index];
  if (client_is_gone() || piece.bytes.empty()) return false;
  const uint64_t at = slot.ahead_bytes;
  slot.ahead_fits &= CanWritePiece() && piece.bytes.size() <= PieceRoom(index) - at;
  if (!slot.ahead_fits) return false;
  auto region = connection_->Register(piece.bytes.data(), piece.bytes.size(), 0);
  slot.ahead_fits = region.ok();
  if (!slot.ahead_fits) return false;

  slot.ahead_bytes += piece.bytes.size();
  ++slot.pieces;
  pieces_.Push({.slot = index, .region = *region, .release = std::move(piece.release)});
  service_.counters->bytes_written += piece.bytes.size();
  // RFC 8166 section 3.4.6: contiguously, in the order of the segments.
  const ChunkLists& chunks = header_->chunks;
  WriteOut(index, {piece.bytes.data(), static_cast<uint32_t>(piece.bytes.size()), region->key},
           chunks.SegmentsOf(chunks.write_chunks[0]), at, /*told=*/true);
  OnPosted();
  return true;
}

void Responder::ReleasePiece() {
  Piece piece = pieces_.Pop();
  --slots_[piece.slot].pieces;
  connection_->Deregister(piece.region);
  if (piece.release) piece.release();
}

}  // namespace pollux::rpcrdma
