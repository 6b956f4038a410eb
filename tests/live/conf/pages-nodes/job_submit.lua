-- SPDX-License-Identifier: GPL-2.0-or-later
function slurm_job_submit(job, partitions, user)
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end
