-- SPDX-License-Identifier: GPL-2.0-or-later
--
-- gpushare's rule of types as a script for job_submit/lua, as far as that can know: it sees no limits, so the governed
-- QOSes, their types and the cluster's types are written here. The bench compares gpushare with it.

local GOVERNED = {qos_lafferty = {a40 = true}}
local TYPES = {a40 = true, ["3090"] = true}
local SHARES = {mps = true, shard = true}
local OTHER = {cpu = true, mem = true, node = true, billing = true, energy = true, none = true}
local UNSET = 65534 -- NO_VAL16

local function refuse(qos, text)
    slurm.log_user("QOS %s needs GPUs asked for by type, as in --gres=gpu:TYPE:COUNT; not '%s'", qos, text)
    return 2072 -- ESLURM_INVALID_GRES
end

local function is_count(text)
    return string.match(text, "^%d+$") or string.match(text, "^%d+[kKmMgGtTpP][iI]?[bB]?$")
end

-- The type of a request for GPUs, false for something else, nil for what can't be read or names none.
local function gpu_type(token)
    local rest = string.match(token, "^gres[:/](.+)$")
    if not rest then
        local name = string.match(token, "^([^:=]+)")
        if OTHER[name] or (string.match(name, "^license/[%w_.@-]+$") and not string.find(name, "gres", 1, true)) then
            return false
        end
        return nil
    end
    local name, tail = string.match(rest, "^([%w_.+-]+)(.*)$")
    if not name or SHARES[name] then return nil end
    if name ~= "gpu" then return false end
    local kind, count = string.match(tail, "^:(%w[%w_.+-]*)[:=]([^:=]+)$")
    if kind then return is_count(count) and kind or nil end
    kind = string.match(tail, "^:(%w[%w_.+-]*)$")
    if kind and not is_count(kind) then return kind end
    return nil
end

-- Whether a field is clean; the number of GPU tokens with a type in it.
local function typed(request, types)
    if request == nil then return true, 0 end
    local count = 0
    for token in string.gmatch(request, "[^,]+") do
        local kind = gpu_type(token)
        if kind == nil or (kind and not (TYPES[kind] and types[kind])) then return false, 0 end
        if kind then count = count + 1 end
    end
    return true, count
end

function slurm_job_submit(job, partitions, user)
    local node, all, task, socket = job.tres_per_node, job.tres_per_job, job.tres_per_task, job.tres_per_socket
    local each = job.ntasks_per_tres
    local by_task = each ~= nil and each ~= 0 and each ~= UNSET
    if node == nil and all == nil and task == nil and socket == nil and not by_task then return slurm.SUCCESS end
    local qos = job.qos or job.default_qos
    if qos == nil then return slurm.SUCCESS end
    qos = string.lower(qos)
    if string.find(qos, ",", 1, true) then
        for name in string.gmatch(qos, "[^,]+") do
            if GOVERNED[name] then return refuse(name, qos) end
        end
        return slurm.SUCCESS
    end
    local types = GOVERNED[qos]
    if types == nil then return slurm.SUCCESS end
    local named = 0
    for _, request in pairs({node or "", all or "", task or "", socket or ""}) do
        local clean, count = typed(request, types)
        if not clean then return refuse(qos, request) end
        named = named + count
    end
    if by_task and named == 0 then return refuse(qos, "--ntasks-per-gpu") end
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end
