//! Schema: what the file can hold, for editors and other programs.
//!
//! **Why.** A schema that is written by hand says what somebody remembered. This one is what the reader was heard to ask for, so
//! a setting that is read is in it, with its words and its kind of value, and one that is not is not.
//!
//! **How.** A host hands over a file with every table in it, and its reader. The file is read once, and once more with each word that a setting knows: what is asked
//! for may depend on it, as a budget's numbers do on its kind. All that was asked for is written down.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    document::{Document, Override},
    fields::Fields,
    shape::{Json, Shape},
};

/// Largest number that all readers of JSON read as it is written.
const LARGEST: u64 = 1 << 53;

/// What a host's file can hold, as a JSON Schema: what its reader asks for in a file that has every table.
///
/// What depends on something else, such as the numbers of a budget on its kind, is allowed with either; reading the file
/// is stricter.
///
/// ```
/// let schema = quell_config::schema("[policy.x]", &|root| {
///     quell_config::Policy::all(root);
/// });
/// assert!(schema.contains("\"per_try_timeout\""));
/// ```
pub fn schema(tables: &str, read: &dyn Fn(&Fields<'_>)) -> String {
    let mut members = vec![
        ("$schema".to_owned(), Json::text("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), Json::text("quell.toml")),
    ];
    members.extend(record(tables, read).members(""));
    format!("{}\n", Json::Object(members))
}

/// All that is ever asked for.
pub(super) fn record(tables: &str, read: &dyn Fn(&Fields<'_>)) -> Record {
    let mut record = Record::default();
    let mut runs = vec![Vec::new()];
    while let Some(overrides) = runs.pop() {
        let Ok(document) = Document::parse("schema", tables, &overrides) else { continue };
        record = listen(document, record, read);
        for word in std::mem::take(&mut record.untried) {
            runs.push(overrides.iter().cloned().chain([word]).collect());
        }
    }
    record
}

/// Reads a document for what is asked for, whether or not it is right.
pub(super) fn listen(document: Document, record: Record, read: &dyn Fn(&Fields<'_>)) -> Record {
    document.listen(record);
    let root = document.root();
    read(&root);
    drop(root);
    document.heard()
}

/// What was asked for, by table. Tables that are read alike are one: `upstream.*`.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) tables: BTreeMap<String, Table>,
    /// Settings whose words were tried or are about to be.
    tried: BTreeSet<String>,
    /// Words that nobody has tried yet.
    untried: Vec<Override>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// Whether people choose the names in it.
    free: bool,
    /// In the order they are asked for.
    pub(super) settings: Vec<(&'static str, Setting)>,
}

#[derive(Debug, Default)]
pub(super) struct Setting {
    needed: bool,
    pub(super) means: Option<&'static str>,
    pub(super) shapes: BTreeSet<Shape>,
}

impl Record {
    fn table(&mut self, place: &str) -> &mut Table {
        self.tables.entry(place.to_owned()).or_default()
    }

    fn setting(&mut self, place: &str, name: &'static str) -> &mut Setting {
        let settings = &mut self.table(place).settings;
        let known = settings.iter().position(|(known, _)| *known == name);
        let at = known.unwrap_or_else(|| {
            settings.push((name, Setting::default()));
            settings.len() - 1
        });
        &mut settings[at].1
    }

    /// A table is read.
    pub(super) fn open(&mut self, place: &str) {
        self.table(place);
    }

    /// Somebody else reads it.
    pub(super) fn free(&mut self, place: &str) {
        self.table(place).free = true;
    }

    /// A setting is asked for.
    pub(super) fn asked(&mut self, place: &str, name: &'static str) {
        self.setting(place, name);
    }

    /// What it means.
    pub(super) fn means(&mut self, place: &str, name: &'static str, means: &'static str) {
        self.setting(place, name).means = Some(means);
    }

    /// It cannot be left out.
    pub(super) fn needs(&mut self, place: &str, name: &'static str) {
        self.setting(place, name).needed = true;
    }

    /// This is what it can be, among others.
    pub(super) fn shape(&mut self, place: &str, name: &'static str, shape: Shape) {
        self.setting(place, name).shapes.extend(shape.kinds().cloned());
    }

    /// It knows these words.
    pub(super) fn words(&mut self, path: String, words: impl Iterator<Item = &'static str>) {
        let path = path.replace('[', ".").replace(']', "");
        let flag = |word| Override::flag("schema", &format!("{path}=\"{word}\""));
        if self.tried.insert(path.clone()) {
            self.untried.extend(words.filter_map(flag));
        }
    }

    /// The schema of a table.
    fn object(&self, place: &str) -> Json {
        Json::Object(self.members(place))
    }

    fn members(&self, place: &str) -> Vec<(String, Json)> {
        let kind = ("type".to_owned(), Json::text("object"));
        let table = match self.tables.get(place) {
            Some(table) if !table.free => table,
            _ => return vec![kind],
        };
        let property = |(name, setting): &(&'static str, Setting)| {
            let below =
                if place.is_empty() { (*name).to_owned() } else { format!("{place}.{name}") };
            ((*name).to_owned(), described(setting.means, self.any(&below, &setting.shapes)))
        };
        let properties = table.settings.iter().map(property).collect();
        let mut members = vec![kind, ("properties".to_owned(), Json::Object(properties))];
        let needed: Vec<_> =
            table.settings.iter().filter(|(_, it)| it.needed).map(|(name, _)| *name).collect();
        if !needed.is_empty() {
            members.push(("required".to_owned(), Json::texts(needed)));
        }
        members.push(("additionalProperties".to_owned(), Json::Bool(false)));
        members
    }

    fn any(&self, place: &str, shapes: &BTreeSet<Shape>) -> Json {
        let with_values = shapes.iter().any(|shape| matches!(shape, Shape::Values(_)));
        // Whoever reads values looks into the table they are in as well.
        let said = |shape: &&Shape| !(with_values && **shape == Shape::Table);
        let mut kinds: Vec<_> =
            shapes.iter().filter(said).map(|shape| self.one(place, shape)).collect();
        match kinds.len() {
            1 => kinds.remove(0),
            _ => Json::object([("anyOf", Json::List(kinds))]),
        }
    }

    fn one(&self, place: &str, shape: &Shape) -> Json {
        let kind = |word: &str| ("type", Json::text(word));
        match shape {
            Shape::Any => Json::object([]),
            Shape::Bool => Json::object([kind("boolean")]),
            Shape::Number => Json::object([kind("number")]),
            Shape::Text => Json::object([kind("string")]),
            Shape::Like(pattern) => {
                Json::object([kind("string"), ("pattern", Json::text(*pattern))])
            }
            Shape::Words(words) => Json::object([("enum", Json::texts(words.iter().copied()))]),
            Shape::Whole(most) if *most > LARGEST => {
                Json::object([kind("integer"), ("minimum", Json::Whole(0))])
            }
            Shape::Whole(most) => self.one(place, &Shape::Between(0, *most)),
            Shape::Between(least, most) => Json::object([
                kind("integer"),
                ("minimum", Json::Whole(*least)),
                ("maximum", Json::Whole(*most)),
            ]),
            Shape::List(part) => Json::object([kind("array"), ("items", self.one(place, part))]),
            Shape::Values(value) => {
                Json::object([kind("object"), ("additionalProperties", self.one(place, value))])
            }
            Shape::Either(kinds) => self.any(place, &kinds.iter().cloned().collect()),
            Shape::Table => self.object(place),
            Shape::Named => Json::object([
                kind("object"),
                ("propertyNames", Json::object([("pattern", Json::text("^[A-Za-z0-9_-]{1,64}$"))])),
                ("additionalProperties", self.object(&format!("{place}.*"))),
            ]),
            Shape::Rows => {
                let row = self.object(&format!("{place}[]"));
                Json::object([kind("array"), ("items", row)])
            }
        }
    }
}

/// A schema that says what the setting means.
fn described(means: Option<&str>, mut schema: Json) -> Json {
    if let (Some(meaning), Json::Object(members)) = (means, &mut schema) {
        members.insert(0, ("description".to_owned(), Json::text(meaning)));
    }
    schema
}
