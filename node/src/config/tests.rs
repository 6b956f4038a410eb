use super::*;

#[test]
fn only_a_file_with_lines_of_nodes_needs_to_know_which_this_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gpushare.conf");
    let load = |node| NodeConfig::load(&path, node);
    assert_eq!(load(Some("n1")).unwrap(), None);
    assert_eq!(load(None).unwrap(), None, "no file");
    std::fs::write(&path, "Placement=own\nUnitsPerGpu=80\n").unwrap();
    assert_eq!(load(None).unwrap().map(|config| config.placement), Some(Placement::Own));
    std::fs::write(&path, "Placement=own\nUnitsPerGpu=80\nNodeName=n1 Placement=off\n").unwrap();
    assert!(matches!(load(None), Err(LoadError::Nameless(_))));
    let placements = ["n1", "n2"].map(|node| load(Some(node)).unwrap().unwrap().placement);
    assert_eq!(placements, [Placement::Off, Placement::Own]);
}

#[test]
fn who_closes_gpus_to_jobs_without_an_entry() {
    for (placement, fence_drm, expected) in [
        (Placement::Off, true, false),
        (Placement::Follow, false, false),
        (Placement::Follow, true, true),
        (Placement::Own, false, true),
        (Placement::Override, false, true),
    ] {
        let config = NodeConfig { placement, fence_drm, ..NodeConfig::default() };
        assert_eq!(config.closes_without_entry(), expected, "{placement:?} {fence_drm}");
    }
}
