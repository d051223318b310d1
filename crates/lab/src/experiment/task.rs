//! The task of a file: an experiment, or a validation of the model.

use std::path::Path;

use flashsim::profile::line_of;
use flashsim::validate::{Depth, SECTIONS, Section};
use serde::Deserialize;
use toml::Table;

use super::{Experiment, ExperimentError};

/// The task of a file.
#[derive(Clone, Debug)]
pub enum Task {
    /// Points to measure.
    Experiment(Experiment),
    /// A comparison of the SSD model with independent results.
    Validation(Validation),
}

/// A comparison of the model of SSDs with closed forms and other programs.
#[derive(Clone, Debug)]
pub struct Validation {
    /// A name for people.
    pub title: String,
    /// How thorough it is.
    pub depth: Depth,
    /// Which groups of comparisons.
    pub sections: Vec<&'static Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(rename = "about")]
    _about: Option<String>,
    validate: Validate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Validate {
    #[serde(default)]
    short: bool,
    sections: Option<Vec<String>>,
}

impl Validation {
    /// These groups of comparisons, or all if there are none. The error is a name that is none.
    ///
    /// # Errors
    /// In words.
    pub fn new(title: String, short: bool, names: &[String]) -> Result<Self, String> {
        let find = |name: &String| {
            SECTIONS.iter().find(|section| section.name == name).ok_or_else(|| {
                let names: Vec<_> = SECTIONS.iter().map(|section| section.name).collect();
                format!("there is no group {name:?} of comparisons; there are {}", names.join(", "))
            })
        };
        let sections = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            title,
            depth: if short { Depth::Short } else { Depth::Full },
            sections: if sections.is_empty() { SECTIONS.iter().collect() } else { sections },
        })
    }
}

impl Task {
    /// What the file at `path` asks for.
    ///
    /// # Errors
    /// If it can't be read or asks for nothing that can be done.
    pub fn load(path: &Path) -> Result<Self, ExperimentError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ExperimentError::File { path: path.to_path_buf(), error })?;
        let validates = toml::from_str::<Table>(&text).is_ok_and(|t| t.contains_key("validate"));
        if !validates {
            return Experiment::parse(&text, path).map(Self::Experiment);
        }
        let File { title, validate, .. } =
            toml::from_str(&text).map_err(|error| ExperimentError::Syntax {
                path: path.to_path_buf(),
                message: error.to_string().trim_end().to_owned(),
            })?;
        let names = validate.sections.unwrap_or_default();
        let validation = Validation::new(title, validate.short, &names);
        validation.map(Self::Validation).map_err(|message| ExperimentError::Point {
            path: path.to_path_buf(),
            line: line_of(&text, "validate.sections"),
            what: "[validate]".into(),
            message,
        })
    }
}
