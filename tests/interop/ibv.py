"""Numbers of infiniband/verbs.h that the peers print and take."""

WC_SUCCESS = 0
WC_LOC_LEN_ERR = 1
WC_FLUSHED = 5
WC_REM_INV_REQ_ERR = 9
WC_REM_ACCESS_ERR = 10
WC_REM_OP_ERR = 11
WC_RNR_RETRY_EXC_ERR = 13
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ = 1, 2, 4
