//! What an [`Accounting`] doesn't answer limits nothing.

use super::*;

struct Silent;

impl Accounting for Silent {
    type Qos = ();
    fn qos_named(&self, name: &[u8]) -> Option<()> {
        (name == b"known").then_some(())
    }
    fn default_qos(&self, _request: &Request) -> DefaultQos<()> {
        DefaultQos::None
    }
    fn name(&self, _qos: ()) -> &[u8] {
        b"known"
    }
    fn typed_limits<'s>(&'s self, _qos: (), _gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        std::iter::empty()
    }
    fn limit_on_all(&self, _qos: (), _gres: &[u8]) -> Option<Option<u64>> {
        None
    }
    fn types<'s>(&'s self, _gres: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        std::iter::empty()
    }
    fn counts(&self, _gres: &[u8]) -> bool {
        false
    }
    fn owner(&self, _request: &Request) -> Option<Owner<'_>> {
        None
    }
    fn default_partition(&self) -> Option<&[u8]> {
        None
    }
}

#[test]
fn what_is_not_answered_limits_nothing() {
    let request = Request::new(Spelling::Slash);
    assert_eq!(Silent.qoses_named(&[b"other", b"known"]).len(), 1);
    assert!(!Silent.limits_all((), GPU));
    assert!(!Silent.denies_on_limit(()));
    assert!(!Silent.limits_billing(()));
    assert_eq!(Silent.most_nodes(&request), None);
    assert!(!Silent.passes_max_nodes(()));
    assert!(Silent.has_node("any"));
    assert_eq!(Silent.default_memory(b"any"), DefaultMemory { of_node: Some(true), of_gpu: None });
}
