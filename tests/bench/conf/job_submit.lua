-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- What a site without gpushare writes: under one QOS, by its name, GPUs must be asked for by type. The bench compares
-- gpushare with it; it is written for speed and it knows less (one QOS, no default QOS, no check that the type exists).

local GOVERNED = "qos_lafferty"

-- Whether a tres_per_* string asks for a GPU and names no type: gpu, gpu:2, gpu=2, with or without gres/ before it.
local function has_untyped_gpu(request)
    if request == nil then return false end
    for token in string.gmatch(request, "[^,]+") do
        local rest = string.match(token, "^gres[/:]gpu(.*)$") or string.match(token, "^gpu(.*)$")
        if rest and (rest == "" or string.match(rest, "^[:=]%d+$")) then return true end
    end
    return false
end

function slurm_job_submit(job, partitions, user)
    if job.qos ~= GOVERNED then return slurm.SUCCESS end
    if has_untyped_gpu(job.tres_per_node) or has_untyped_gpu(job.tres_per_job)
        or has_untyped_gpu(job.tres_per_task) or has_untyped_gpu(job.tres_per_socket) then
        slurm.log_user("GPUs must be asked for by type under QOS %s: --gres=gpu:TYPE:COUNT", GOVERNED)
        return 2072 -- ESLURM_INVALID_GRES
    end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end
