//! What Slurm's programs print and nobody here can read.

gpushare::errors! {
    /// Why a plan can't be made: not from half of the truth.
    #[derive(Debug, PartialEq, Eq)]
    pub enum ReadError {
        Short(line: String) => "sacctmgr's line '{}' is too short", line.escape_debug();
        Value { qos: String, field: &'static str, text: String } =>
            "sacctmgr shows {field} '{}' for QOS '{qos}', which can't be read", text.escape_debug();
        NoRoot => "sacctmgr shows no account 'root' of this cluster";
        NoKey(key: &'static str) => "'scontrol show config' has no {key}";
    }
}
