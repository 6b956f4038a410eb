# /etc/profile.d/gpushare.sh: gives an ssh session that pam_slurm_adopt put into a job the variables of the job's share.
# pam_slurm_adopt sets SLURM_JOB_ID; the file belongs to root, and disappears with the job.
if [ -n "$SLURM_JOB_ID" ] && [ -r "/run/gpushare/env/$SLURM_JOB_ID" ]; then
    . "/run/gpushare/env/$SLURM_JOB_ID"
fi
