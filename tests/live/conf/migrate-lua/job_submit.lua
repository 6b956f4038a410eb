-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- Rules as sites' scripts have them: a default QOS, a partition that needs a GPU, a type for each GPU, CPUs for each GPU.
-- Like many of them it looks at --gres alone.

local function refuse(text)
    slurm.log_user("site: %s", text)
    return slurm.ERROR
end

function slurm_job_submit(job, partitions, user)
    if job.qos == nil then
        job.qos = "qos_lafferty"
    end
    local gres = job.tres_per_node or ""
    if job.partition == "gpu" and not string.find(gres, "gpu", 1, true) and job.tres_per_job == nil then
        return refuse("partition gpu needs a GPU")
    end
    if string.find(gres, "gpu:%d") then
        return refuse("name a GPU type, as in --gres=gpu:a40:1")
    end
    local count = tonumber(string.match(gres, "gpu:a40:(%d+)"))
    if count and job.min_cpus < 4294967294 and job.min_cpus > 8 * count then
        return refuse("at most 8 CPUs for each GPU")
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end
