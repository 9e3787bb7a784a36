/* The data of block_store.x that may be transferred by RDMA READ and WRITE: the bytes of blocks.
 * Both sides must use the same binding. */
#ifndef POLLUX_EXAMPLES_RPCGEN_BLOCK_BINDING_H_
#define POLLUX_EXAMPLES_RPCGEN_BLOCK_BINDING_H_

#include "examples/rpcgen/block_store.h"
#include "tools/tirpc/pollux_rpc.h"

static const struct pollux_procedure block_procedures[] = {
    {.procedure = PUT,
     .max_argument_bytes = 4 + NAME_MAX_BYTES + 4,
     .max_result_bytes = 4,
     .arguments = POLLUX_ITEM(put_arguments, data.data_val, BLOCK_MAX_BYTES)},
    {.procedure = GET,
     .max_argument_bytes = 4 + NAME_MAX_BYTES,
     .max_result_bytes = 512,
     .results = POLLUX_ITEM(get_result, get_result_u.data.data_val, BLOCK_MAX_BYTES),
     .idempotent = TRUE},
};

/* LIST and PUT_NAMES may use the default maximum of 1 MiB; the other procedures need less. */
static const struct pollux_program block_binding = {
    .program = BLOCK_STORE,
    .version = BLOCK_STORE_V1,
    .procedure_count = sizeof block_procedures / sizeof block_procedures[0],
    .procedures = block_procedures};

#endif /* POLLUX_EXAMPLES_RPCGEN_BLOCK_BINDING_H_ */
