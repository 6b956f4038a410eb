# /etc/profile.d/gpushare.sh: gives an ssh session that pam_slurm_adopt put into a job the variables of the job's share.
# pam_slurm_adopt sets SLURM_JOB_ID; the files belong to root, and disappear with the job.
if [ -z "$SLURM_JOB_ID" ]; then
    :
elif [ -r "/run/gpushare/env/$SLURM_JOB_ID" ]; then
    . "/run/gpushare/env/$SLURM_JOB_ID" # the job started under a gpushare that wrote no format 5
elif [ -r "/run/gpushare/jobs/$SLURM_JOB_ID" ]; then
    while IFS= read -r gpushare_line; do
        case $gpushare_line in
            env=PYTORCH_CUDA_ALLOC_CONF=*) [ -n "${PYTORCH_CUDA_ALLOC_CONF+x}" ] || export "${gpushare_line#env=}" ;;
            env=*) export "${gpushare_line#env=}" ;;
        esac
    done <"/run/gpushare/jobs/$SLURM_JOB_ID"
    unset gpushare_line
fi
