//! `list`: the roles that this session may launch, then its children (CMD-10).

use host_abi::ops::GetSessionInfo;

use super::{
    Orchestrator,
    command::{CardScope, ListQuery, StatusQuery},
    definitions::Loaded,
    report::{Body, Report, RoleView},
};
use crate::cards::{CardSource, RoleListing, role_listing};

impl Orchestrator {
    /// The roles that this session may launch, as the cards and settings stand.
    pub async fn roster(&self, scope: CardScope) -> Vec<RoleView> {
        self.roles_of(&self.definitions(), scope).await
    }

    async fn roles_of(&self, loaded: &Loaded, scope: CardScope) -> Vec<RoleView> {
        let settings = &loaded.settings.last_good;
        let context = self.context();
        let parent = self.host.request(&GetSessionInfo {}).await.ok().and_then(|info| info.model);
        loaded
            .catalog
            .roster(context.identity.role())
            .filter(|agent| in_scope(agent.source, scope))
            .map(|agent| {
                let inputs = settings.model_inputs(agent, None, parent.as_deref());
                view(role_listing(agent, &inputs))
            })
            .collect()
    }

    pub(super) async fn list(&self, query: ListQuery) -> Report {
        let loaded = self.definitions();
        let roles = self.roles_of(&loaded, query.scope).await;
        let all = StatusQuery { all: true, ..StatusQuery::default() };
        let children = match self.project(&all) {
            Ok(projection) => projection.children,
            Err(error) => return Report { refused: Some(error), ..Report::default() },
        };
        let broken = loaded.catalog.broken().iter().map(|error| error.to_string()).collect();
        let body = Body::Roles { roles, team: "default".to_owned(), children, broken };
        Report { body, ..Report::default() }
    }
}

fn in_scope(source: CardSource, scope: CardScope) -> bool {
    match scope {
        CardScope::Both => true,
        CardScope::User => source == CardSource::User,
        CardScope::Project => source == CardSource::Project,
    }
}

fn view(role: RoleListing) -> RoleView {
    RoleView {
        flags: role.flags(),
        name: role.name,
        source: role.source.as_str(),
        description: role.description,
        model: role.model,
        model_source: role.model_source.map(|source| source.as_str()),
    }
}
