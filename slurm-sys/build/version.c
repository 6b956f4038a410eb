/* What the preprocessor makes of Slurm's headers; build/version.rs reads the lines that begin with gpushare_. */
#include <slurm/slurm_version.h>

gpushare_version SLURM_VERSION_NUMBER

/* "At least this release", where something changed that this project uses. build.rs makes a cfg of each. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
gpushare_has slurm_23_02
#else
gpushare_lacks slurm_23_02
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
gpushare_has slurm_23_11
#else
gpushare_lacks slurm_23_11
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
gpushare_has slurm_25_11
#else
gpushare_lacks slurm_25_11
#endif
