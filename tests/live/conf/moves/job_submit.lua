-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- A site's script that writes into updates: what it writes is in the job's name.

function slurm_job_submit(job, partitions, user)
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    if record.name == "stamped" then
        job.comment = "changed by " .. user
        job.wckey = "site"
    elseif record.name == "slowed" then
        job.nice = 2147483648 + 5
    end
    return slurm.SUCCESS
end
