//! Gives a request's GPUs types that count: which type, and how each of its strings changes.

use super::Correction;
use super::governed::invented;
use super::merged::{Now, before, rewritten, written};
use super::{Accounting, Field, GPU, Gres, Judgement, Offer, Parsed, Rule, Under};
use crate::submit::grammar::{self, Token};
use crate::submit::request::Part;

/// A type that can be named for a GRES.
struct Choice {
    gres: Vec<u8>,
    gres_type: Vec<u8>,
    /// The maximum number at once.
    most: u64,
    /// Whether it is one of several types of the cluster: only the user knows which their nodes have.
    open: bool,
}

impl Choice {
    /// This many of the type.
    fn asks(&self, count: u64) -> Gres<'_> {
        Gres { name: &self.gres, gres_type: Some(&self.gres_type), count }
    }

    fn is(&self, gres: &Gres) -> bool {
        self.asks(gres.count) == *gres
    }
}

type Fields = Vec<(Field, Vec<u8>)>;

impl<A: Accounting> Judgement<'_, '_, A> {
    /// Names a type wherever the rule of types finds a fault: the first type that has enough for the whole job,
    /// otherwise the one that has most. All other tokens stay.
    pub(super) fn retype(
        &self,
        request: &Parsed,
        wanted: &mut Correction,
        under: Under<A::Qos>,
    ) -> Option<()> {
        let mut chosen: Vec<Choice> = Vec::new();
        for gres in self.at_fault(request, under) {
            let mut choices = self.choices(request, under, gres);
            let enough = choices.iter().position(|choice| {
                let fields = self.retyped(request, under, &[choice]);
                fields.is_some_and(|fields| total(request, &fields, choice) <= choice.most)
            });
            let most =
                || choices.iter().enumerate().rev().max_by_key(|(_, choice)| choice.most).map(|(at, _)| at);
            chosen.push(choices.swap_remove(enough.or_else(most)?));
        }
        let mut fields = self.retyped(request, under, &chosen.iter().collect::<Vec<_>>())?;
        for choice in &chosen {
            let asked = total(request, &fields, choice);
            if asked > choice.most {
                wanted.beyond.get_or_insert((choice.gres.clone(), asked));
                reduce(request, &mut fields, choice)?;
            }
            if choice.open {
                open(wanted, &fields, choice);
            }
        }
        wanted.set(fields);
        Some(())
    }

    /// Names the GPUs again that a job keeps in an update. If none are visible, only the user knows how many there are.
    pub(super) fn restate(
        &self,
        request: &Parsed,
        wanted: &mut Correction,
        under: Option<Under<A::Qos>>,
    ) -> Option<()> {
        let mut kept: Fields = Field::ALL
            .into_iter()
            .filter(|field| request.gres_of(*field).next().is_some())
            .filter_map(|field| Some((field, request.string(field)?.to_vec())))
            .collect();
        let of_gpus = |gres: &Gres| self.policy.gres.has(gres.name);
        if request.names(of_gpus).is_none() {
            let choice = self.choices(request, under?, GPU).into_iter().next()?;
            let gres_type: &[u8] = if choice.open { b"TYPE" } else { &choice.gres_type };
            let token = [request.spelling.prefix(), GPU, b":", gres_type, b":COUNT"].concat();
            let one = written(choice.asks(1), request.spelling);
            wanted.open.push((one.clone(), token));
            let old = kept.iter().find(|(field, _)| *field == Field::Node).map(|(_, text)| text.as_slice());
            kept = vec![(Field::Node, before(one, old))];
        }
        wanted.set(kept);
        Some(())
    }

    /// What must be asked for with a type instead of a token: the GRES, and how many if that is known; `None` if the
    /// token may stay.
    fn lacks_type<'t>(&self, token: Token<'t>, under: Under<A::Qos>) -> Option<(&'t [u8], Option<u64>)> {
        match token {
            Token::Gres(gres) if gres.count > 0 && self.policy.gres.has(gres.name) => {
                Some(match self.type_fault(under, gres)? {
                    // A share is a part of one GPU, however many units that has.
                    Rule::ShareUncounted => (GPU, Some(1)),
                    _ => (gres.name, Some(gres.count)),
                })
            }
            Token::Unrecognised(text) => Some((GPU, text.likely_gpus())),
            Token::Gres(_) | Token::Cpus(_) | Token::Other => None,
        }
    }

    /// The GRES that need a type, or may need one because of `--ntasks-per-gpu`.
    fn at_fault<'t>(&self, request: &Parsed<'t>, under: Under<A::Qos>) -> Vec<&'t [u8]> {
        let lacking = request.tokens().filter_map(|(_, token)| self.lacks_type(token, under));
        let of_tasks = request.ntasks_per_tres() > 0;
        let mut found: Vec<_> = lacking.map(|(name, _)| name).chain(of_tasks.then_some(GPU)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The types to choose from: first one that the request names correctly itself, then the others by name.
    fn choices(&self, request: &Parsed, under: Under<A::Qos>, gres: &[u8]) -> Vec<Choice> {
        let named = request.names(|token| {
            token.name == gres && token.gres_type.is_some() && self.type_fault(under, *token).is_none()
        });
        let named = named.and_then(|(_, token)| token.gres_type);
        let choice = |gres_type: Vec<u8>, most, open| Choice { gres: gres.to_vec(), gres_type, most, open };
        let mut choices: Vec<_> = match self.offered(under, gres, named) {
            Offer::OfQos(limits) => limits
                .into_iter()
                .map(|(gres_type, count)| choice(gres_type, count.unwrap_or(u64::MAX), false))
                .collect(),
            Offer::OfCluster(types) => {
                let open = types.len() > 1 && named.is_none();
                types.into_iter().map(|gres_type| choice(gres_type, u64::MAX, open)).collect()
            }
            _ => Vec::new(),
        };
        if let Some(gres_type) =
            named.filter(|gres_type| !choices.iter().any(|choice| choice.gres_type == *gres_type))
        {
            choices.insert(0, choice(gres_type.to_vec(), u64::MAX, false));
        }
        choices
    }

    /// Every string that had a fault, with the fault fixed.
    fn retyped(&self, request: &Parsed, under: Under<A::Qos>, chosen: &[&Choice]) -> Option<Fields> {
        let form = |token: Token| {
            let Some((name, count)) = self.lacks_type(token, under) else { return Now::Kept };
            match (chosen.iter().find(|choice| choice.gres == name), count) {
                (Some(choice), Some(count)) => Now::Asks(choice.asks(count)),
                _ if matches!(token, Token::Unrecognised(_)) => Now::Unclear,
                _ => Now::Kept,
            }
        };
        let mut fields = Vec::new();
        for field in Field::ALL.into_iter().filter(|field| field.requests()) {
            let Some(text) = request.string(field) else { continue };
            let is_replaced = self.is_replaced(field);
            let new = rewritten(request.parts_of(field), request.spelling, |token| match form(token) {
                Now::Kept => Now::Kept,
                _ if is_replaced => Now::Gone,
                form => form,
            })?;
            if new != *text {
                fields.push((field, new));
            }
        }
        self.add_for_tasks(request, &mut fields, chosen);
        Some(fields)
    }

    /// For `--ntasks-per-gpu` alone, adds as many GPUs as Slurm would have invented.
    fn add_for_tasks(&self, request: &Parsed, fields: &mut Fields, chosen: &[&Choice]) {
        let Some(choice) = chosen.iter().find(|choice| choice.gres == GPU) else { return };
        let now = request.with(fields);
        if request.ntasks_per_tres() == 0
            || now.names(|gres| gres.name == GPU && gres.gres_type.is_some()).is_some()
        {
            return;
        }
        let token = written(choice.asks(invented(request)), request.spelling);
        let text = before(token, now.tres_per_job);
        fields.push((Field::Job, text));
    }

    /// Whether a string is the job's old one, which an update replaces by naming its GPUs in another.
    fn is_replaced(&self, field: Field) -> bool {
        let Some((update, _)) = self.update else { return false };
        let names = |token: &Token| match token {
            Token::Gres(gres) => gres.count > 0 && self.policy.gres.has(gres.name),
            Token::Unrecognised(_) => true,
            Token::Cpus(_) | Token::Other => false,
        };
        update.request.string(field).is_none() && update.request.tokens().any(|(_, token)| names(&token))
    }
}

/// The highest number of GPUs of a type that one of the strings requests in total.
fn total(request: &Parsed, fields: &Fields, choice: &Choice) -> u64 {
    let counts = request.with(fields);
    let counts = counts.gres().filter(|(_, gres)| choice.is(gres));
    counts.map(|(field, gres)| gres.count.saturating_mul(request.times(field))).max().unwrap_or(0)
}

/// Reduces the count to what the type has. Possible only if a single string has the count and no number of tasks
/// depends on it.
fn reduce(request: &Parsed, fields: &mut Fields, choice: &Choice) -> Option<()> {
    let said = fields.clone();
    let now = request.with(&said);
    let places: Vec<_> = now.gres().filter(|(_, gres)| choice.is(gres)).map(|(field, _)| field).collect();
    let (&[field], 0) = (places.as_slice(), request.ntasks_per_tres()) else { return None };
    let fewest = if field == Field::Job { u64::from(request.min_nodes.unwrap_or(1)) } else { 1 };
    let count = choice.most.checked_div(request.times(field)).filter(|count| *count >= fewest.max(1))?;
    let (_, text) = fields.iter_mut().find(|(place, _)| *place == field)?;
    *text = rewritten(now.parts_of(field), request.spelling, |token| match token {
        Token::Gres(gres) if choice.is(&gres) => Now::Asks(choice.asks(count)),
        _ => Now::Kept,
    })?;
    Some(())
}

/// Shows TYPE instead of the type that was checked.
fn open(wanted: &mut Correction, fields: &Fields, choice: &Choice) {
    for (part, token) in fields.iter().flat_map(|(_, text)| grammar::tokens(text, wanted.said.spelling)) {
        if let Token::Gres(gres) = token
            && choice.is(&gres)
        {
            let shown = written(Gres { gres_type: Some(b"TYPE"), ..gres }, wanted.said.spelling);
            wanted.open.push((part.to_vec(), shown));
        }
    }
}

/// Every string with an untyped GPU, with types added; omits the others.
pub(super) fn filled(request: &Parsed, gres_type: &[u8]) -> Fields {
    let form = |token: Token| match token {
        Token::Gres(gres) if gres.name == GPU && gres.gres_type.is_none() => {
            Now::Asks(Gres { name: GPU, gres_type: Some(gres_type), count: gres.count })
        }
        _ => Now::Kept,
    };
    let is_untyped = |part: &Part| matches!(form(part.token), Now::Asks(_));
    let fields = Field::ALL.into_iter().filter(|field| field.requests());
    let fields = fields.filter(|field| request.parts_of(*field).any(is_untyped));
    fields
        .filter_map(|field| Some((field, rewritten(request.parts_of(field), request.spelling, form)?)))
        .collect()
}
