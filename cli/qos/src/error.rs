//! Output of Slurm's programs that can't be parsed.

gpushare::errors! {
    /// Why a plan can't be made: it must not be based on incomplete data.
    #[derive(Debug, PartialEq, Eq)]
    pub enum ReadError {
        Short(line: String) => "sacctmgr's line '{}' is too short", line.escape_debug();
        Value { qos: String, field: &'static str, text: String } =>
            "sacctmgr shows {field} '{}' for QOS '{qos}', which can't be read", text.escape_debug();
        NoRoot => "sacctmgr shows no account 'root' of this cluster";
        NoKey(key: &'static str) => "'scontrol show config' has no {key}";
    }
}
