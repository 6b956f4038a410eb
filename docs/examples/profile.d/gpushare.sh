# /etc/profile.d/gpushare.sh: an ssh session that pam_slurm_adopt took into a job gets the variables of the job's share.
# pam_slurm_adopt sets SLURM_JOB_ID; the file is root's, and goes when the job does.
if [ -n "$SLURM_JOB_ID" ] && [ -r "/run/gpushare/env/$SLURM_JOB_ID" ]; then
    . "/run/gpushare/env/$SLURM_JOB_ID"
fi
